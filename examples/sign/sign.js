// Signs a call of the wallet for Minitill and prints the form body to send (Node.js).
//
// Try it: node sign.js PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
const { createHmac } = require("node:crypto");

const NOT_SIGNED = ["access_token", "sign"];

// Signs the values as they are, sorted by name, without empty ones; only the body is encoded.
function signedBody(fields, payKey) {
  const signed = Object.keys(fields).filter((name) => fields[name] !== "" && !NOT_SIGNED.includes(name));
  const text = signed.sort().map((name) => `${name}=${fields[name]}`).join("&");
  const sign = createHmac("sha256", payKey).update(text, "utf8").digest("hex");
  return new URLSearchParams({ ...fields, sign }).toString();
}

module.exports = { signedBody };

if (require.main === module) {
  const [key, form] = process.argv.slice(2);
  console.log(signedBody(Object.fromEntries(new URLSearchParams(form)), key));
}
