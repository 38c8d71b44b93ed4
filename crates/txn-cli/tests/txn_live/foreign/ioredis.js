// What ioredis is asked to do. Arguments: port of a node, of a node far away, process of the first
// node, which is killed in the end (0: it is not).
const assert = require("assert");
const Redis = require("ioredis");
const [home, far, pid] = process.argv.slice(1).map(Number);

async function main() {
  const r = new Redis(home, { maxRetriesPerRequest: 2, retryStrategy: () => 50 });
  const other = new Redis(far);
  r.on("error", () => {});
  await r.del("{r0}:count", "{r0}:x", "{r1}:y", "{r1}:h");
  const p = r.pipeline();
  for (let n = 0; n < 50; n++) p.incr("{r0}:count");
  assert.deepStrictEqual((await p.exec()).map(([, value]) => value).slice(-1), [50]);
  const all = await r.multi().set("{r0}:x", 1).set("{r1}:y", 2).mget("{r1}:y", "{r0}:x").exec();
  assert.deepStrictEqual(all, [[null, "OK"], [null, "OK"], [null, ["2", "1"]]]);
  await r.watch("{r0}:x", "{r1}:y");
  await other.set("{r1}:y", 3);
  assert.strictEqual(await r.multi().incr("{r0}:x").exec(), null, "a conflict was not seen");
  assert.strictEqual(await r.get("{r0}:x"), "1");
  r.defineCommand("move", {
    numberOfKeys: 2,
    lua: "redis.call('DECRBY', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])",
  });
  // EVALSHA at first, and EVAL where the script is not known.
  assert.strictEqual(await r.move("{r0}:x", "{r1}:y", 5), 8);
  assert.strictEqual(await r.move("{r0}:x", "{r1}:y", 1), 9);
  assert.deepStrictEqual(await other.mget("{r0}:x", "{r1}:y"), ["-5", "9"]);
  await assert.rejects(r.lpush("{r0}:x", 1), /^ReplyError: WRONGTYPE/);
  await r.hset("{r1}:h", { f: 1, g: 2 });
  assert.deepStrictEqual(await r.hgetall("{r1}:h"), { f: "1", g: "2" });
  if (pid) {
    const ended = new Promise((resolve) => r.once("close", resolve));
    process.kill(pid, "SIGKILL");
    await ended;
    await assert.rejects(r.get("{r0}:x"), /ECONNREFUSED|max retries/);
    // Where it is to connect again is the application's to say.
    r.options.port = far;
    assert.strictEqual(await r.get("{r0}:x"), "-5");
    assert.strictEqual(await r.incr("{r0}:x"), -4);
  }
  r.disconnect();
  other.disconnect();
  console.log("fine");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
