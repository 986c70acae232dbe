// Package insight answers the questions that users have about VidraResources and managed objects: [Client.Status],
// [Client.Tree], [Client.Why], [Client.Blame], [Client.History] and [Client.Events]. A question is a method of [Client] from a
// context and a query to a typed answer, whose JSON `vidra ... -o json` prints. Package render makes text of answers.
//
// Invariants:
//   - It reads only, with the rights of its user: a Client sends GET, LIST and WATCH requests, and dry runs.
//   - All requests go through the transport of one rest.Config, so that a test can count them. A question about an object costs at
//     most 6 requests.
//   - Values that are never shown are masked in the answer (ownership.Disclose decides): a renderer cannot print them.
//   - The gaps of an answer, because the user may not read the data or because they are elsewhere, are in its Missing or Remarks.
//   - Names and messages in an answer come from clusters: a renderer escapes them.
package insight
