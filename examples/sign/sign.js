// Signs an exchange for Minitill and prints the form body to send (Node.js).
//
// Try it: node sign.js PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
const { createHmac } = require("node:crypto");

// The signed fields, in ASCII order of their names. access_token is not among them.
const SIGNED = ["amount", "app_id", "biz_no", "extension", "open_id", "os", "pay_priority", "product_desc",
  "product_info", "product_name", "ts", "user_ip", "zone_id"];

// Signs the values as they are, leaving out empty ones; only the body is encoded.
function signedBody(fields, payKey) {
  const present = SIGNED.filter((name) => (fields[name] ?? "") !== "");
  const text = present.map((name) => `${name}=${fields[name]}`).join("&");
  const sign = createHmac("sha256", payKey).update(text, "utf8").digest("hex");
  return new URLSearchParams({ ...fields, sign }).toString();
}

module.exports = { signedBody };

if (require.main === module) {
  const [key, form] = process.argv.slice(2);
  console.log(signedBody(Object.fromEntries(new URLSearchParams(form)), key));
}
