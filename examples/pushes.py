"""Calls a strong command of a speculative space, and prints its results as they arrive.

Needs redis-py 7, and a space whose prefix is stock:. Usage: python examples/pushes.py [PORT]
"""

import sys

import redis

port = int(sys.argv[1]) if len(sys.argv) > 1 else 7101

# Pushes belong to a connection that speaks RESP3.
site = redis.Redis(port=port, protocol=3, single_connection_client=True, decode_responses=True)
pushes = []
# redis-py passes all pushes that it does not know to the handler for subscriptions.
site.connection._parser.set_pubsub_push_handler(pushes.append)

called = site.execute_command("SOLERA.CALL", "TRACK", "STRONG", "INCRBY", "stock:42", 1)
print("tentative:", called["tentative"])
while True:
    while not pushes:
        # Pushes that arrive while the connection waits for a reply are in the list already.
        site.connection.read_response(push_request=True)
    kind, ticket, result, *cause = pushes.pop(0)
    if ticket == called["ticket"]:
        print(kind, result, *cause)
        if kind == "solera.stable":
            break
