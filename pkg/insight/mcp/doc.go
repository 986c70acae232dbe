// Package mcp offers the questions of package insight as tools of the Model Context Protocol (https://modelcontextprotocol.io), so that
// assistants answer questions such as "who scaled web?" with the rights of their user.
//
// Invariants:
//   - Every tool reads only: the insight.Client refuses requests that write.
//   - A result has at most [MaxResult] bytes.
//   - A result is JSON with escaped control characters. Values that are never shown are masked before they come here.
package mcp
