// Package backstop finds changes of objects whose events were lost or misjudged: it compares the objects with the API
// server by dry runs (ADR 15).
package backstop
