// Package backstop finds changes of objects whose events were lost or misjudged: it lists the objects in pages, compares
// their digests, and has the API server compare those that differ by dry runs (ADR 15, ADR 44).
package backstop
