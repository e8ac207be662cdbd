"use strict";
// Shows the document in the viewer. Nothing is fetched from another host; the page's policy forbids it too.
const place = document.getElementById("viewer");
const sends = place.dataset.sends === "true";
const keys = document.getElementById("keys");
const NOT_SIGNED = ["access_token", "sign"];

function typed(name) {
  return document.getElementById(name).value.trim();
}

// Signs a call of the wallet as a game's server does: sorted by name, without empty values.
async function sign(fields, payKey) {
  const signed = [...fields].filter(([name, value]) => value !== "" && !NOT_SIGNED.includes(name));
  signed.sort(([one], [other]) => (one < other ? -1 : 1));
  const bytes = (text) => new TextEncoder().encode(text);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes(payKey), algorithm, false, ["sign"]);
  const text = signed.map(([name, value]) => `${name}=${value}`).join("&");
  const mac = new Uint8Array(await crypto.subtle.sign(algorithm.name, key, bytes(text)));
  fields.set("sign", Array.from(mac, (byte) => byte.toString(16).padStart(2, "0")).join(""));
}

// Sends what the viewer sends. A form of the wallet is signed before, where there is a key.
async function send(input, init) {
  const request = new Request(input, init);
  const type = request.headers.get("content-type") ?? "";
  if (request.method !== "POST" || !type.startsWith("application/x-www-form-urlencoded") || typed("pay_key") === "") {
    return fetch(request);
  }
  const fields = new URLSearchParams(await request.text());
  for (const name of ["app_id", "access_token"]) {
    if (typed(name) !== "") fields.set(name, typed(name));
  }
  fields.set("ts", Date.now());
  await sign(fields, typed("pay_key"));
  return fetch(request.url, { method: "POST", headers: request.headers, body: fields.toString() });
}

if (keys !== null) document.getElementById("not_secure").hidden = window.isSecureContext;
Scalar.createApiReference(place, {
  url: place.dataset.document,
  // Calls go to the server that the page comes from: no other origin is allowed.
  ...(sends ? { servers: [{ url: location.origin, description: "This server" }] } : {}),
  ...(keys === null ? {} : { customFetch: send }),
  hideTestRequestButton: !sends,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
  telemetry: false,
  withDefaultFonts: false,
  proxyUrl: "",
  defaultOpenFirstTag: true,
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
});
