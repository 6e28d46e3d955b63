"""Tests redis-py with both protocols: commands, pipelines, transactions, WATCH, locks, tokens, and a module."""

import sys
import threading
import time

import redis

one, two = (int(port) for port in sys.argv[1:3])
for protocol in (2, 3):
    r = redis.Redis(port=one, protocol=protocol, decode_responses=True)
    assert r.ping()
    assert r.set("py", "1") and r.get("py") == "1"
    assert r.incrby("py", 41) == 42
    r.delete("pyset", "pyhash")
    assert r.sadd("pyset", "a", "b") == 2 and r.smembers("pyset") == {"a", "b"}
    assert r.hset("pyhash", mapping={"f": "1", "g": "2"}) == 2
    assert r.hgetall("pyhash") == {"f": "1", "g": "2"}
    assert r.mget("py", "missing") == ["42", None]
    with r.pipeline(transaction=True) as pipe:
        pipe.incr("py").get("py")
        assert pipe.execute() == [43, "43"]
    with r.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.set(f"py{i}", i)
        assert all(pipe.execute())
    try:
        r.incr("pyset")
        raise SystemExit("INCR of a set must fail")
    except redis.ResponseError as error:
        assert "WRONGTYPE" in str(error), error
    assert r.info("server")["redis_version"]
    me = r.client_info()
    assert me["db"] == 0 and me["addr"].startswith("127.0.0.1:"), me
    assert any(client["cmd"] == "client|list" for client in r.client_list())
    assert r.client_kill_filter(_id="999999999") == 0

here = redis.Redis(port=one, single_connection_client=True, decode_responses=True)
there = redis.Redis(port=two, single_connection_client=True, decode_responses=True)
here.set("journey", str(time.time_ns()))
token = here.execute_command("SOLERA.TOKEN")
there.execute_command("SOLERA.ATTACH", token)
assert there.get("journey") == here.get("journey")

# Two sites read and write one key at the same time. No step is lost: after a conflict, redis-py receives a
# WatchError and retries.
STEPS = 20
here.set("steps", "0")
token = here.execute_command("SOLERA.TOKEN")


def climb(port):
    r = redis.Redis(port=port, single_connection_client=True, decode_responses=True)
    r.execute_command("SOLERA.ATTACH", token)

    def step(pipe):
        steps = int(pipe.get("steps"))
        pipe.multi()
        pipe.set("steps", steps + 1)

    for _ in range(STEPS):
        r.transaction(step, "steps")


climbers = [threading.Thread(target=climb, args=(port,)) for port in (one, two)]
for climber in climbers:
    climber.start()
for climber in climbers:
    climber.join()
# The last step may not be visible in this session yet; then its EXEC returns nil, and redis-py retries.
assert here.transaction(lambda pipe: (pipe.multi(), pipe.get("steps")), "steps") == [str(2 * STEPS)]

# WATCH without a retry: the key has changed.
with here.pipeline() as pipe:
    pipe.watch("steps")
    there.execute_command("SOLERA.ATTACH", here.execute_command("SOLERA.TOKEN"))
    with there.pipeline() as other:
        other.watch("steps")
        other.multi()
        other.set("steps", "overtaken")
        other.execute()
    pipe.multi()
    pipe.set("steps", "ours")
    try:
        pipe.execute()
        raise SystemExit("EXEC must fail after another transaction")
    except redis.WatchError:
        pass

# A lock across sites.
here.delete("lock:py")
assert here.set("lock:py", "here", nx=True) is True
assert there.set("lock:py", "there", nx=True) is None
assert there.get("lock:py") == "here"
assert here.delete("lock:py") == 1
assert there.setnx("lock:py", "there") is True
assert here.setnx("lock:py", "here") is False

# A module: a strong store decides at every site, and a causal store is updated in the same transaction.
SHOP = """
store lock : linearizable;
store cart : causal;
transaction buy(stock: handle<counter> in lock, cart: handle<set<string>> in cart, item: string) -> int {
    if stock.value() <= 0 { abort "sold out"; }
    stock.add(-1);
    cart.add(item);
    return stock.value();
}
"""
assert here.execute_command("SOLERA.MODULE", "LOAD", "shop", SHOP, "REPLACE", "BIND", "cart=default") == "OK"
there.execute_command("SOLERA.ATTACH", here.execute_command("SOLERA.TOKEN"))
here.set("lock:teapots", 2)
left = [r.execute_command("SOLERA.CALL", "shop.buy", "teapots", "cart:pycart", "a teapot") for r in (there, here)]
assert left == [1, 0], left
try:
    there.execute_command("SOLERA.CALL", "shop.buy", "teapots", "cart:pycart", "another")
    raise SystemExit("there is none left")
except redis.ResponseError as error:
    assert str(error).startswith("FAILED aborted: sold out"), error
assert here.smembers("pycart") == {"a teapot"}
