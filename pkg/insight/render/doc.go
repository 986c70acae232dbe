// Package render makes text for users and documents for programs of the answers of package insight. It sends no request and
// decides nothing: it prints the answer alone.
//
// Invariant: names, messages and values come from clusters. Each is escaped (terminal.Escape), in text and in documents.
package render
