// A complete client of Minitill: the wallet, orders, uploads, notifications and a tiny game (Node.js 18 or newer).
//
// Try it: node client.js pay OPEN_ID AMOUNT BIZ_NO. README.md beside it has all commands and settings.
const { createHash, createHmac, randomBytes, timingSafeEqual } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const { setTimeout: sleep } = require("node:timers/promises");
const { signedBody } = require("../sign/sign.js");

const SUCCESS = 1, NO_TOKEN = 100200102, RATE_LIMITED = 10000305, NO_ANSWER = 10000500, INSUFFICIENT = 10000601;
// The number was used before: for other content, or more than 48 hours ago.
const NUMBER_USED = [10000602, 10000603];
// A query has closed the number. It has no effect and never will, however many tries are on their way.
const CLOSED = 10000608;
const USED = "unknown: this number was used before; query it";
const UNKNOWN = "unknown: repeat with the same number";
const OPEN = "/openapi/mp/developer/";
const WAIT_MAX_MS = 8000;
// A token is renewed so long before its end.
const RENEW_MS = 60000;
// The clocks of both sides may differ so much, and a notification may take so long.
const APART_MAX_SECONDS = 300;
// How much the game does at once, and when it tries again what could not be settled.
const WORKERS = 32, AGAIN_MS = 30000;

// Minitill refused the call, and no try of it can have had an effect.
class Refused extends Error {
  constructor(code, msg) {
    super(msg);
    this.code = code;
  }
}

// A try can have had an effect. Repeat with the same number; never take another one.
class Unknown extends Refused {}

// A notification that Minitill did not send, or not now. Answer it with 401, and do nothing more.
class NotGenuine extends Error {}

class Client {
  // timeout: milliseconds for one try. total: milliseconds after which no other try begins.
  constructor(base, appId, appSecret, payKey, timeout = 5000, total = 60000) {
    Object.assign(this, { base: base.replace(/\/$/, ""), appId, appSecret, payKey, timeout, total });
    this.kept = null;
  }

  // Exchanges coins for an order: the fields of docs/api.md but app_id, ts, access_token and sign.
  //
  // The code of the answer is SUCCESS or INSUFFICIENT. sentBefore: this order may have been sent
  // before, such as before a restart. Throws Refused or Unknown.
  pay(order, sentBefore = false) {
    return this.wallet("pay", order, sentBefore);
  }

  // Gives gifted coins. Fields, sentBefore and errors are as in pay.
  present(present, sentBefore = false) {
    return this.wallet("present", present, sentBefore);
  }

  // Gives back an exchange, or a part of it. Fields, sentBefore and errors are as in pay.
  cancel(cancel, sentBefore = false) {
    return this.wallet("cancel", cancel, sentBefore);
  }

  // Orders a product of the prices, before the player pays money for it. Fields, sentBefore and errors are as in pay.
  topup(order, sentBefore = false) {
    return this.wallet("topup", order, sentBefore);
  }

  // Shows both purses. Fields and errors are as in pay.
  balance(player) {
    return this.wallet("balance", player, false, false);
  }

  // Tells what became of a number. close: an unknown one is closed for ever. Throws Refused or Unknown.
  query(openId, bizNo, close = false) {
    return this.wallet("query", { open_id: openId, biz_no: bizNo, close: close ? "1" : "0" }, false, close);
  }

  // Gives up a number that got no answer. With any status but "closed" it had its effect before.
  giveUp(openId, bizNo) {
    return this.query(openId, bizNo, true);
  }

  // Reports an order. Throws Refused or Unknown.
  report(order) {
    const body = jsonOf(order);
    return this.call((token) => this.send(this.open(OPEN + "order/v1/report", token), body));
  }

  // Uploads the bytes of a PNG or JPEG and gives the imgId. Throws Refused or Unknown.
  async upload(picture) {
    const form = new FormData();
    form.set("file", new Blob([picture]), "cover.png");
    const answer = await this.call((token) => this.send(this.open(OPEN + "file/img/uploadWithFile", token), form));
    return answer.body.data.imgId;
  }

  // Lets Minitill fetch a picture and gives the imgId. Throws Refused or Unknown.
  async uploadByUrl(url) {
    const form = new URLSearchParams({ url });
    const answer = await this.call((token) => this.send(this.open(OPEN + "file/img/uploadWithUrl", token), form));
    return answer.body.data.imgId;
  }

  // Tells the sandbox that a game under test has shipped. Throws Refused or Unknown.
  noteShipment(bizNo) {
    const body = jsonOf({ biz_no: bizNo });
    return this.call((token) => this.send(this.open("/sandbox/v1/shipments", token), body));
  }

  wallet(call, fields, sentBefore, changes = true) {
    const body = (token) => {
      const own = { app_id: this.appId, access_token: token, ts: String(Date.now()) };
      return new URLSearchParams(signedBody({ ...fields, ...own }, this.payKey));
    };
    return this.call((token) => this.send(`/api/kpay/minigame/${call}`, body(token)), sentBefore, changes);
  }

  open(path, token) {
    return `${path}?${new URLSearchParams({ app_id: this.appId, access_token: token })}`;
  }

  // Repeats a call until an answer decides. Each try makes its request anew, with a fresh token and ts.
  // changes: a try can have an effect, so a refusal does not tell what became of the tries before it.
  async call(send, unsure = false, changes = true) {
    const until = Date.now() + this.total;
    for (let wait = 1000, tries = 0, renewed = false; ; ) {
      const kept = await this.accessToken();
      tries += kept.token ? 1 : 0;
      const answer = kept.token ? await send(kept.token) : kept.answer;
      if (answer.code === SUCCESS || answer.code === INSUFFICIENT) return { ...answer, tries, unsure };
      if (answer.code === NO_TOKEN && kept.token && !renewed) {
        this.forget(kept.token);
        renewed = true;
        continue;
      }
      unsure ||= answer.code === NO_ANSWER && Boolean(kept.token);
      if (NUMBER_USED.includes(answer.code)) throw new Unknown(answer.code, USED);
      if (![NO_ANSWER, RATE_LIMITED].includes(answer.code)) {
        throw new (unsure && changes && answer.code !== CLOSED ? Unknown : Refused)(answer.code, answer.msg);
      }
      const pause = answer.retryAfter || wait;
      if (Date.now() + pause > until) {
        throw unsure ? new Unknown(answer.code, UNKNOWN) : new Refused(answer.code, answer.msg);
      }
      await sleep(pause);
      wait = Math.min(2 * wait, WAIT_MAX_MS);
    }
  }

  // The token that is kept, or a new one; or no token and the answer that explains why.
  // Calls that come at the same time wait for one request.
  accessToken() {
    this.asked ??= this.keptOrNew().finally(() => (this.asked = null));
    return this.asked;
  }

  async keptOrNew() {
    if (this.kept && Date.now() < this.kept.renewAt) return this.kept;
    const fields = { app_id: this.appId, app_secret: this.appSecret, grant_type: "client_credentials" };
    const answer = await this.send("/oauth2/access_token", new URLSearchParams(fields));
    if (answer.code !== SUCCESS) return { answer };
    const { access_token: token, expires_in: seconds } = answer.body;
    return (this.kept = { token, renewAt: Date.now() + seconds * 1000 - RENEW_MS });
  }

  forget(token) {
    // Another call may have renewed it already.
    if (this.kept?.token === token) this.kept = null;
  }

  // One request. What is no answer of Minitill gets the code NO_ANSWER, as its own system error has.
  async send(path, body) {
    let retryAfter = 0;
    try {
      const limits = { redirect: "manual", signal: AbortSignal.timeout(this.timeout) };
      const response = await fetch(this.base + path, { method: "POST", body, ...limits });
      const after = response.headers.get("retry-after") ?? "";
      retryAfter = /^\d+$/.test(after) ? Number(after) * 1000 : 0;
      const read = parsed(await response.text());
      const code = read.code ?? read.result;
      if (response.status >= 500 || !Number.isInteger(code)) throw new Error(`HTTP status ${response.status}`);
      const replayed = response.headers.get("idempotent-replayed") === "true";
      return { code, msg: read.msg ?? read.error_msg ?? "", body: read, replayed, retryAfter };
    } catch (error) {
      return { code: NO_ANSWER, msg: `no answer: ${error.cause?.message ?? error.message}`, retryAfter };
    }
  }
}

function jsonOf(value) {
  return new Blob([JSON.stringify(value)], { type: "application/json" });
}

// What marks an integer in a text of JSON; nobody else can write it.
const MARK = randomBytes(16).toString("hex");

// The value of a text of JSON, with a BigInt for each integer that a number of JavaScript does not hold exactly.
function parsed(text) {
  const marked = String(text).replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (found) =>
    found.startsWith('"') || Number.isSafeInteger(Number(found)) ? found : `"${MARK}${found}"`);
  const exact = (value) => typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;
  return JSON.parse(marked, (_, value) => exact(value));
}

// The text of JSON of a value, with each BigInt as an integer.
function written(value) {
  const marked = JSON.stringify(value, (_, inner) => typeof inner === "bigint" ? `${MARK}${inner}` : inner);
  return marked.replace(new RegExp(`"${MARK}(-?\\d+)"`, "g"), "$1");
}

// Gives the event of a notification in the standard format, with its id. Throws NotGenuine.
//
// secrets: the receiver's whsec_..., or several with a space between. Then the values of the three headers,
// undefined for one that is missing. body: a Buffer with the bytes as they came; JSON that was parsed and
// written again does not verify. now: Unix seconds, for tests. Store the event by its id before you answer:
// it can come twice.
function verifyNotification(secrets, webhookId, webhookTimestamp, webhookSignature, body, now = Date.now() / 1000) {
  const keys = secrets.split(" ").map(keyOf);
  if (!/^\d{1,12}$/.test(webhookTimestamp)) throw new NotGenuine("webhook-timestamp: expected Unix seconds");
  if (Math.abs(now - Number(webhookTimestamp)) > APART_MAX_SECONDS) {
    throw new NotGenuine("webhook-timestamp: expected a time within 5 minutes of now");
  }
  const hmac = (key) => createHmac("sha256", key).update(`${webhookId}.${webhookTimestamp}.`).update(body);
  // The version v1 stands in what is compared, so signatures of other versions never fit.
  const expected = keys.map((key) => `v1,${hmac(key).digest("base64")}`);
  const given = (webhookSignature ?? "").split(" ");
  if (!expected.some((one) => given.some((other) => isSame(one, other)))) {
    throw new NotGenuine("webhook-signature: no signature fits");
  }
  return { ...parsed(body), id: webhookId };
}

// The key in a secret. A setting that is missing must not become an empty key: anybody could sign with it.
function keyOf(secret) {
  const key = Buffer.from(secret.startsWith("whsec_") ? secret.slice(6) : "", "base64");
  if (key.length === 0) throw new Error("expected a secret of a receiver: whsec_ and base64");
  return key;
}

// In a time that does not tell where two texts differ.
function isSame(one, other) {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

// Gives the event of a notification in the platform's format, with its id. Throws NotGenuine.
//
// appSecrets: the app secret, or several with a space between; while it changes, the new one and the former
// one. kwaisign: the header, or undefined. body: a Buffer with the bytes as they came. This format holds no
// time of the try, so only the id tells a repeat: keep the ids. Take the event by answering 200 with
// platformAnswer(event).
function verifyPlatformNotification(appSecrets, kwaisign, body) {
  const secrets = appSecrets.split(" ");
  if (secrets.includes("")) throw new Error("expected an app secret");
  const expected = secrets.map((secret) => createHash("md5").update(body).update(secret).digest("hex"));
  if (!expected.some((one) => isSame(one, kwaisign ?? ""))) {
    throw new NotGenuine("kwaisign: expected the MD5 of body and app secret");
  }
  const event = parsed(body);
  return { ...event, id: event.message_id };
}

// The body of the answer that takes an event of the platform's format. Minitill sends it again after any other.
function platformAnswer(event) {
  return JSON.stringify({ result: 1, message_id: event.id });
}

// A tiny game: it buys an item for each credit, and ships what was paid.
//
// A real game keeps in its database what this one keeps in memory: an event before it is answered, and a number
// in the transaction that gives the item to the player.
class Game {
  constructor(client) {
    Object.assign(this, { client, seen: new Set(), shipped: new Set(), queue: [], busy: 0 });
  }

  // Takes an event once. The work comes later, so that the answer need not wait for it.
  take(event) {
    const known = ["wallet.credited", "exchange.succeeded"].includes(event.type);
    if (known && !event.is_mock && isNew(this.seen, event.id)) this.put(event);
  }

  put(event) {
    this.queue.push(event);
    while (this.busy < WORKERS && this.queue.length > 0) {
      this.busy++;
      this.work(this.queue.shift());
    }
  }

  async work(event) {
    for (; event; event = this.queue.shift()) {
      try {
        await (event.type === "wallet.credited" ? this.buy(event) : this.ship(event.data.biz_no));
      } catch (error) {
        // Nobody knows yet what became of it. To do all of it again is safe: its number is the same.
        console.error(`${event.id}: ${error}`);
        sleep(AGAIN_MS, event).then((event) => this.put(event));
      }
    }
    this.busy--;
  }

  // The number comes from the event, so an event that comes again after a restart buys nothing more.
  async buy({ id, data: { open_id: openId } }) {
    const bizNo = id.replace("_", "");
    const answer = await this.client.pay(orderOf(openId, "1", bizNo), true).catch((error) => {
      if (!(error instanceof Refused)) throw error;
      return error;
    });
    // Without success a try can still be on its way. To give the number up tells, and makes sure.
    const isPaid = answer.code === SUCCESS || (await this.client.giveUp(openId, bizNo)).body.data.status === "paid";
    if (isPaid) await this.ship(bizNo);
  }

  async ship(bizNo) {
    // The number is kept first: to ship twice is worse than to tell of it late.
    if (!isNew(this.shipped, bizNo)) return;
    console.log(JSON.stringify({ outcome: "shipped", biz_no: bizNo }));
    await this.client.noteShipment(bizNo);
  }
}

function isNew(known, name) {
  if (known.has(name)) return false;
  known.add(name);
  return true;
}

// Serves a game at this port of 127.0.0.1, or at a free one for 0, until the program ends.
function play(client, secrets, port) {
  const game = new Game(client);
  secrets.split(" ").forEach(keyOf);
  const server = createServer((request, response) => {
    const [head, parts] = [request.headers, []];
    request.on("data", (part) => parts.push(part)).on("end", () => {
      const given = [head["webhook-id"], head["webhook-timestamp"], head["webhook-signature"]];
      try {
        game.take(verifyNotification(secrets, ...given, Buffer.concat(parts)));
        response.writeHead(204).end();
      } catch (error) {
        if (!(error instanceof NotGenuine)) throw error;
        response.writeHead(401).end();
      }
    });
  });
  return new Promise((_, fail) => {
    server.on("error", fail).listen(port, "127.0.0.1", () => {
      console.log(JSON.stringify({ outcome: "playing", port: server.address().port }));
    });
  });
}

function playerOf(openId) {
  return { open_id: openId, zone_id: "zone1_role1", os: "android", user_ip: "203.0.113.7" };
}

function orderOf(openId, amount, bizNo) {
  return {
    ...playerOf(openId), amount, biz_no: bizNo, product_name: "Double-up card", product_desc: "For one match",
    product_info: '[{"product_id":1001,"product_num":1,"product_type":0}]',
  };
}

// What a command asks for, one function for each line that it prints; see README.md.
function jobs(client, command, ...words) {
  const [player, amount] = [playerOf(words[0]), words[1]];
  if (command === "pay" || command === "pay-again") {
    const pay = (number) => client.pay(orderOf(words[0], amount, number), command === "pay-again");
    return words.slice(2).map((number) => async () => paid(await pay(number)));
  }
  if (command === "present") {
    return words.slice(2).map((biz_no) => async () => done(await client.present({ ...player, amount, biz_no })));
  }
  if (command === "cancel") {
    const cancel = { ...player, amount, pay_biz_no: words[2] };
    return words.slice(3).map((biz_no) => async () => done(await client.cancel({ ...cancel, biz_no })));
  }
  if (command === "topup") {
    const order = { ...player, product_id: words[1] };
    return words.slice(2).map((biz_no) => async () => done(await client.topup({ ...order, biz_no })));
  }
  if (command === "balance") return [async () => done(await client.balance(player))];
  if (command === "query" || command === "give-up") {
    const ask = (number) => (command === "query" ? client.query : client.giveUp).call(client, words[0], number);
    return words.slice(1).map((number) => async () => done(await ask(number)));
  }
  if (command === "report") {
    const [open_id, number, order_create_time, order_status, order_path, product_cover_img_id] = words;
    const order = { open_id, order_create_time, order_status, order_path, product_cover_img_id };
    const numbers = { out_biz_order_no: number, out_order_no: number };
    return [async () => (await client.report({ ...order, ...numbers })) && { outcome: "done" }];
  }
  if (command === "upload") {
    return [async () => ({ outcome: "done", imgId: await client.upload(readFileSync(words[0])) })];
  }
  if (command === "upload-url") return [async () => ({ outcome: "done", imgId: await client.uploadByUrl(words[0]) })];
  if (command === "verify") {
    const [body, secrets, now] = [readFileSync(0), process.env.RECEIVER_SECRET ?? "", words.slice(3).map(Number)];
    const verify = () => verifyNotification(secrets, words[0], words[1], words[2], body, ...now);
    return [async () => ({ ...verify(), outcome: "done" })];
  }
  if (command === "verify-platform") {
    const body = readFileSync(0);
    return [async () => taken(verifyPlatformNotification(client.appSecret ?? "", words[0], body))];
  }
  if (command === "play") return [() => play(client, process.env.RECEIVER_SECRET ?? "", Number(words[0]))];
  throw new Error(`${command}: no such command`);
}

function paid({ code, body, replayed, tries, unsure }) {
  // Not final: an earlier try can still be on its way.
  if (code === INSUFFICIENT) return { outcome: "insufficient", final: !unsure, tries };
  const { freeBalance, chargeBalance } = body.data;
  return { outcome: "paid", replayed, tries, freeBalance, chargeBalance };
}

function done({ body, replayed, tries }) {
  return { outcome: "done", replayed, tries, ...body.data };
}

function taken(event) {
  return { ...event, outcome: "done", answer: JSON.parse(platformAnswer(event)) };
}

async function main({ MINITILL_BASE, APP_ID, APP_SECRET, PAY_KEY, MINITILL_TIMEOUT_MS, MINITILL_TOTAL_MS }) {
  const limits = [Number(MINITILL_TIMEOUT_MS ?? 5000), Number(MINITILL_TOTAL_MS ?? 60000)];
  const client = new Client(MINITILL_BASE ?? "http://127.0.0.1:8080", APP_ID, APP_SECRET, PAY_KEY, ...limits);
  for (const job of jobs(client, ...process.argv.slice(2))) {
    let line;
    try {
      line = await job();
    } catch (error) {
      if (error instanceof NotGenuine) line = { outcome: "not_genuine", msg: error.message };
      else if (!(error instanceof Refused)) throw error;
      else line = { outcome: error instanceof Unknown ? "unknown" : "refused", code: error.code, msg: error.message };
    }
    console.log(written(line));
    if (!["paid", "done"].includes(line.outcome)) process.exitCode = 1;
  }
}

module.exports = { Client, Refused, Unknown };
Object.assign(module.exports, { NotGenuine, verifyNotification, verifyPlatformNotification, platformAnswer, Game, play });

if (require.main === module) main(process.env);
