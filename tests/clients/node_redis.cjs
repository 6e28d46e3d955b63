// Tests node-redis: commands, a transaction, an error, a token, and a module.
const { createClient } = require("redis");
const assert = require("node:assert");

async function main() {
  const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}` });
  client.on("error", (error) => { throw error; });
  await client.connect();
  assert.equal(await client.set("node", "1"), "OK");
  assert.equal(await client.incrBy("node", 4), 5);
  await client.hSet("nodehash", { f: "1", g: "2" });
  assert.deepEqual({ ...(await client.hGetAll("nodehash")) }, { f: "1", g: "2" });
  const replies = await client.multi().incr("node").get("node").exec();
  assert.deepEqual(replies.map(String), ["6", "6"]);
  await assert.rejects(client.incr("nodehash"), /WRONGTYPE/);
  assert.match(await client.sendCommand(["SOLERA.TOKEN"]), /^solera-3-/);
  const source = `store words : causal;
    transaction note(log: handle<log<string>> in words, text: string) -> list<string> {
      log.append(text);
      return log.values();
    }`;
  const load = ["SOLERA.MODULE", "LOAD", "notes", source, "REPLACE", "BIND", "words=default"];
  assert.equal(await client.sendCommand(load), "OK");
  await client.sendCommand(["SOLERA.CALL", "notes.note", "nodelog", "one"]);
  const both = await client.sendCommand(["SOLERA.CALL", "notes.note", "nodelog", "two"]);
  assert.deepEqual(both, ["one", "two"]);
  await client.close();
}
main().catch((error) => { console.error(error); process.exit(1); });
