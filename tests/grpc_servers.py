"""Real servers of gRPC, with a service of users and with `gnomon.v1.Receiver`."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import _async as reflecting
from grpc_reflection.v1alpha import reflection_pb2
from grpc_tools import protoc

import gnomon

SHIP = "shop.Orders/Ship"
RECEIVE = "gnomon.v1.Receiver/Receive"
Answer = Callable[[Any, Any, type[Any]], Awaitable[Any]]

_PROTO = Path(gnomon.__file__).parent / "proto"
_WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


@cache
def compiled(folder: Path, name: str) -> bytes:
    """The descriptor set of a file, with its imports."""
    with TemporaryDirectory() as made:
        found = Path(made) / "set"
        options = [f"-I{folder}", f"-I{_WELL_KNOWN}", "--include_imports"]
        assert protoc.main(["protoc", *options, f"--descriptor_set_out={found}", name]) == 0
        return found.read_bytes()


def shop_set() -> bytes:
    return compiled(Path(__file__).parent, "shop.proto")


def receiver_set() -> bytes:
    return compiled(_PROTO, "gnomon/v1/receiver.proto")


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@cache
def pool() -> descriptor_pool.DescriptorPool:
    found = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    for content in (shop_set(), receiver_set()):
        for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
            if file.name not in added:
                found.Add(file)
                added.add(file.name)
    return found


class GrpcServer:
    """Answers calls, and remembers them with their metadata."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.metadata: list[dict[str, str]] = []
        self.port = 0
        self.answer: Answer = _shipped

    def url(self, method: str = SHIP, host: str = "127.0.0.1", scheme: str = "grpc") -> str:
        return f"{scheme}://{host}:{self.port}/{method}"

    async def called(self, request: Any, context: Any, response: type[Any]) -> Any:
        self.calls.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        return await self.answer(request, context, response)

    def handlers(self, service: str) -> grpc.GenericRpcHandler:
        methods = {}
        for method in pool().FindServiceByName(service).methods:
            request, response = map(
                message_factory.GetMessageClass, (method.input_type, method.output_type)
            )

            async def call(asked: Any, context: Any, response: type[Any] = response) -> Any:
                return await self.called(asked, context, response)

            methods[method.name] = grpc.unary_unary_rpc_method_handler(
                call, request.FromString, response.SerializeToString
            )
        return grpc.method_handlers_generic_handler(service, methods)


async def _shipped(request: Any, _: Any, response: type[Any]) -> Any:
    if response.DESCRIPTOR.full_name == "shop.Shipment":
        return response(order_id=request.order_id, parcels=len(request.items))
    return response(result="done")


def _reflection(version: str) -> grpc.GenericRpcHandler:
    servicer = reflecting.ReflectionServicer(["shop.Orders"], pool=pool())
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    service = f"grpc.reflection.{version}.ServerReflection"
    return grpc.method_handlers_generic_handler(service, {"ServerReflectionInfo": handler})


@asynccontextmanager
async def grpc_server(
    made: GrpcServer | None = None,
    *,
    reflection: str | None = "v1alpha",
    credentials: grpc.ServerCredentials | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[GrpcServer]:
    """`made` serves on its port again, if it had one."""
    made = made or GrpcServer()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(
        (made.handlers("shop.Orders"), made.handlers("gnomon.v1.Receiver"))
    )
    if reflection is not None:
        server.add_generic_rpc_handlers((_reflection(reflection),))
    where = f"{host}:{made.port}"
    if credentials is None:
        made.port = server.add_insecure_port(where)
    else:
        made.port = server.add_secure_port(where, credentials)
    await server.start()
    try:
        yield made
    finally:
        await server.stop(None)
