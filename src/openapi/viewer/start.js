"use strict";
// Shows the document in the viewer. Nothing is fetched from another host; the page's policy forbids it too.
const place = document.getElementById("viewer");
const sends = place.dataset.sends === "true";
Scalar.createApiReference(place, {
  url: place.dataset.document,
  // Calls go to the server that the page comes from: no other origin is allowed.
  ...(sends ? { servers: [{ url: location.origin, description: "This server" }] } : {}),
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
