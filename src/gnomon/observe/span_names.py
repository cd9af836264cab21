"""Names of spans and their attributes, after OpenTelemetry's conventions for messaging and HTTP.

Those for messaging are still in development (semantic conventions 1.37): names are written here
once, and nowhere else.
"""

SYSTEM = "gnomon"
LIBRARY = "gnomon"
SERVICE = "gnomon"

# Spans: `<operation> <task type>`
SEND = "send"  # a submission, until it is committed
PROCESS = "process"  # an execution

MESSAGING_SYSTEM = "messaging.system"
OPERATION_TYPE = "messaging.operation.type"
OPERATION_NAME = "messaging.operation.name"
DESTINATION = "messaging.destination.name"  # the task type
MESSAGE_ID = "messaging.message.id"  # the task
CONVERSATION_ID = "messaging.message.conversation_id"  # the correlation id

HTTP_METHOD = "http.request.method"
HTTP_STATUS = "http.response.status_code"
URL = "url.full"
SERVER = "server.address"
RPC_SYSTEM = "rpc.system"
RPC_SERVICE = "rpc.service"
RPC_METHOD = "rpc.method"
RPC_STATUS = "rpc.grpc.status_code"
ERROR_TYPE = "error.type"

TENANT = "gnomon.tenant"
ATTEMPT = "gnomon.attempt"
FENCE = "gnomon.fence"
DELAY = "gnomon.delay_seconds"  # from the moment it was scheduled for to its start
OUTCOME = "gnomon.outcome"

# Of links
LINK = "gnomon.link"
TO_SUBMISSION = "submission"
TO_EXECUTION_BEFORE = "execution_before"
