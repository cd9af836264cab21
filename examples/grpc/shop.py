"""A gRPC service that tasks can call: `shop.Orders` on port 50051, or the given one.

pip install 'gnomon[server,grpc]' grpcio-tools
python shop.py
gnomon submit grpc://127.0.0.1:50051/shop.Orders/Ship order_id=o_1 items:='["a", "b"]' --wait
"""

import asyncio
import sys
from pathlib import Path

import grpc.aio
from grpc_reflection.v1alpha import reflection

sys.path.insert(0, str(Path(__file__).parent))  # where shop.proto is looked for
messages, services = grpc.protos_and_services("shop.proto")


class Orders(services.OrdersServicer):
    async def Ship(self, order, context):  # noqa: N802 - as in shop.proto
        if not order.order_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the order has no id")
        print(f"shipping {order.order_id}", flush=True)
        return messages.Shipment(order_id=order.order_id, parcels=len(order.items))

    async def Close(self, _request, _context):  # noqa: N802
        print("closing", flush=True)
        return messages.CloseResponse()


async def main(port: int) -> None:
    server = grpc.aio.server()
    services.add_OrdersServicer_to_server(Orders(), server)
    reflection.enable_server_reflection(["shop.Orders", reflection.SERVICE_NAME], server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print(f"shop.Orders at 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50051))
