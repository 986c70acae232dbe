// Package ui serves a page about VidraResources and their objects to the browser of one user, with the rights of that user: an
// overview, a page for each VidraResource and object, and a forecast for a manifest. The answers come from package insight.
//
// [Server] listens on 127.0.0.1. [Server.URL] has a random token, which each request needs.
//
// Invariants:
//   - A request without the token, with another Host, or from another origin reaches no handler that reads the cluster.
//   - Everything is served from this process: the Content-Security-Policy permits no inline script and no other host.
//   - Text of a cluster is escaped for HTML, and its control characters are visible escapes (terminal.EscapeJSON).
//   - Values of sensitive objects are masked by package ownership before a template gets them.
//   - All pages share one watch for each kind. A watch runs while a page that needs it is open, and half a minute longer.
//   - A page costs a bounded amount of memory: its topics, and at most mostObserved objects of a VidraResource.
//   - Nothing is written to the cluster without Options.AllowWrites. The forecast sends dry runs.
package ui
