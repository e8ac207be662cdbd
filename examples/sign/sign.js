const { createHmac } = require("node:crypto");

const SIGNED = new Set(["open_id", "app_id", "zone_id", "os", "ts", "user_ip", "amount", "pay_priority", "biz_no",
  "product_name", "product_info", "product_desc", "extension"]);

// The form body of an exchange: `fields` as they are, with `sign`.
function signedBody(payKey, fields) {
  const names = Object.keys(fields).filter((name) => SIGNED.has(name) && fields[name] !== "").sort();
  const string = names.map((name) => `${name}=${fields[name]}`).join("&");
  const sign = createHmac("sha256", payKey).update(string, "utf8").digest("hex");
  return new URLSearchParams({ ...fields, sign }).toString();
}
