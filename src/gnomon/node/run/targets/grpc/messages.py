"""Messages of gRPC: JSON to the request of a method and back, by what is known of its types.

The types come from the descriptor set of the target, from the reflection of the server, or, for
`gnomon.v1.Receiver`, from Gnomon itself.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory
from grpc_reflection.v1alpha import reflection_pb2

from gnomon.clock import Clock
from gnomon.model.errors import GnomonError
from gnomon.model.remembered import remembered_long
from gnomon.model.targets.grpc_target import GrpcTarget, descriptor_bytes
from gnomon.node.run.targets.grpc.channels import ChannelKey, OpenChannel

RECEIVER = "gnomon.v1.Receiver"
_RECEIVER_FILE = Path(__file__).parents[4] / "proto/gnomon/v1/receiver.binpb"
_REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_MOST_FILES = 500
_MOST_BYTES = 4 * 1024 * 1024
_KEPT_BYTES = 512 * 1024  # of one file that is read already
_ALL_KEPT_BYTES = 16 * 1024 * 1024
_KNOWN_SECONDS = 300.0
_MOST_KNOWN = 1000
_FIELD = re.compile(r"Failed to parse (.{1,200}?) field: ")
_UNKNOWN_FIELD = re.compile(r'(Message type ".{1,200}?" has no field named ".{1,200}?")')


class NoSuchMethod(GnomonError):
    """The method is not there, or cannot be called once with one message."""


class WrongPayload(GnomonError):
    """The payload is not the request of the method."""


class MethodTypes(NamedTuple):
    """The messages of a method."""

    request: type[message.Message]
    response: type[message.Message]
    pool: descriptor_pool.DescriptorPool

    def request_of(self, payload: bytes | None) -> message.Message:
        """Raises WrongPayload. What the payload holds is not in its message."""
        built = self.request()
        try:
            json_format.Parse(_object(payload or b"{}"), built, descriptor_pool=self.pool)
        except (json_format.ParseError, ValueError, RecursionError) as error:
            name = built.DESCRIPTOR.full_name
            raise WrongPayload(f"the payload is not a {name}: {_reason(str(error))}") from error
        return built

    def shown(self, answer: bytes) -> str:
        """The answer as JSON, as far as it can be read."""
        try:
            text: str = json_format.MessageToJson(
                self.response.FromString(answer),
                preserving_proto_field_name=True,
                indent=None,
                descriptor_pool=self.pool,
            )
        except (message.DecodeError, json_format.Error, ValueError, TypeError):
            return f"<{len(answer)} bytes that are not a {self.response.DESCRIPTOR.full_name}>"
        return text


class _Known(NamedTuple):
    pool: descriptor_pool.DescriptorPool
    at: float


class ServerTypes:
    """What servers said of their services by reflection, remembered for five minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[ChannelKey, str], _Known] = OrderedDict()

    async def of(self, target: GrpcTarget, to: OpenChannel, timeout: float) -> MethodTypes:
        """Raises NoSuchMethod, grpc.aio.AioRpcError, ValueError."""
        service, _, method = target.method[1:].partition("/")
        if target.descriptor_set is not None:
            pool = _given_pool(target.descriptor_set)
        elif service == RECEIVER:
            pool = _receiver_pool()
        else:
            pool = await self._asked(to, service, timeout)
        return types_in(pool, service, method)

    def forget(self, to: OpenChannel, target: GrpcTarget) -> None:
        """The server may have other types by now."""
        self._known.pop((to.key, target.method[1:].partition("/")[0]), None)

    async def _asked(
        self, to: OpenChannel, service: str, timeout: float
    ) -> descriptor_pool.DescriptorPool:
        known, now = self._known.get((to.key, service)), self._clock.monotonic()
        if known is not None and now - known.at < _KNOWN_SECONDS:
            return known.pool
        pool = _pool_of(await _reflected(to.channel, service, timeout))
        self._known[to.key, service] = _Known(pool, now)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return pool


def types_in(pool: descriptor_pool.DescriptorPool, service: str, method: str) -> MethodTypes:
    """Raises NoSuchMethod."""
    try:
        found = pool.FindServiceByName(service)
    except KeyError:
        raise NoSuchMethod(f"there is no service {service}") from None
    called = found.methods_by_name.get(method)
    if called is None:
        known = ", ".join(sorted(found.methods_by_name)[:20]) or "none"
        raise NoSuchMethod(f"{service} has no method {method}; it has: {known}")
    if called.client_streaming or called.server_streaming:
        raise NoSuchMethod(f"{service}/{method} streams, and only unary methods can be called")
    request, response = map(
        message_factory.GetMessageClass, (called.input_type, called.output_type)
    )
    return MethodTypes(request, response, pool)


async def _reflected(channel: grpc.aio.Channel, service: str, timeout: float) -> list[bytes]:
    """The files that a service needs, by either version of reflection."""
    for reflection in _REFLECTIONS:
        try:
            return await _files_by(channel, reflection, service, timeout)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
    raise NoSuchMethod(
        "the server has no reflection; give the target a descriptor_set, made by "
        "protoc --include_imports --descriptor_set_out"
    )


async def _files_by(
    channel: grpc.aio.Channel, reflection: str, service: str, timeout: float
) -> list[bytes]:
    # A stream of one question, each: what ends a stream while it is written to, gRPC does not tell.
    asking = channel.unary_stream(
        f"/{reflection}/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    files: dict[str, bytes] = {}
    question = {"file_containing_symbol": service}
    while True:
        if len(files) > _MOST_FILES or sum(map(len, files.values())) > _MOST_BYTES:
            raise NoSuchMethod(f"the descriptors of {service} are too many to be read")
        call = asking(reflection_pb2.ServerReflectionRequest(**question), timeout=timeout)
        try:
            _take(await call.read(), files, service)
        finally:
            call.cancel()
        if (wanted := _missing(files)) is None:
            return list(files.values())
        question = {"file_by_filename": wanted}


def _take(answer: Any, files: dict[str, bytes], service: str) -> None:
    """Adds the files of an answer. Raises NoSuchMethod."""
    if answer is grpc.aio.EOF:
        raise NoSuchMethod(f"the server's reflection does not answer for {service}")
    if answer.HasField("error_response"):
        raise NoSuchMethod(f"the server knows no service {service}")
    before = len(files)
    for content in answer.file_descriptor_response.file_descriptor_proto:
        files[_parsed(content).name] = content
    if len(files) == before:
        raise NoSuchMethod(f"the server's reflection lacks a file of {service}")


@remembered_long(_KEPT_BYTES, _ALL_KEPT_BYTES)
def _parsed(content: bytes) -> descriptor_pb2.FileDescriptorProto:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(content)
    except message.DecodeError as error:
        raise NoSuchMethod(f"a descriptor of the server cannot be read: {error}") from error


def _missing(files: dict[str, bytes]) -> str | None:
    """A file that another one imports, and that is not there yet."""
    for content in files.values():
        name: str
        for name in _parsed(content).dependency:
            if name not in files:
                return name
    return None


def _pool_of(files: Iterable[bytes]) -> descriptor_pool.DescriptorPool:
    """Raises NoSuchMethod for files that do not fit each other."""
    pool = descriptor_pool.DescriptorPool()
    waiting = [_parsed(content) for content in files]
    added: set[str] = set()
    while waiting:
        fit = [each for each in waiting if added.issuperset(each.dependency)]
        if not fit:
            raise NoSuchMethod("the descriptors are not complete: give them with their imports")
        for each in fit:
            try:
                pool.Add(each)
            except TypeError as error:
                raise NoSuchMethod(f"a descriptor cannot be used: {error}") from error
            added.add(each.name)
        waiting = [each for each in waiting if each.name not in added]
    return pool


@lru_cache(maxsize=200)
def _given_pool(text: str) -> descriptor_pool.DescriptorPool:
    try:
        given = descriptor_pb2.FileDescriptorSet.FromString(descriptor_bytes(text))
    except message.DecodeError as error:
        raise NoSuchMethod(f"descriptor_set is no FileDescriptorSet: {error}") from error
    return _pool_of(each.SerializeToString() for each in given.file)


@lru_cache(maxsize=1)
def _receiver_pool() -> descriptor_pool.DescriptorPool:
    known = descriptor_pb2.FileDescriptorSet.FromString(_RECEIVER_FILE.read_bytes())
    return _pool_of(each.SerializeToString() for each in known.file)


def _object(payload: bytes) -> bytes:
    """A text or list would be taken for an object. Raises ValueError."""
    if not payload.lstrip().startswith(b"{"):
        raise ValueError
    return payload


def _reason(text: str) -> str:
    """What is wrong, without what the payload holds."""
    if found := _UNKNOWN_FIELD.search(text):
        return found[1]
    if fields := _FIELD.findall(text):
        return f"the field {'.'.join(fields)} has another type"
    return "it must be an object with the fields of the message"
