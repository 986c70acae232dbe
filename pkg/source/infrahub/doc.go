// Package infrahub is a client of Infrahub servers (https://docs.infrahub.app): it lists the artifacts of a name and reads
// their content.
//
// The requests equal the requests of the first Vidra operator. [Client] sends them; reading an answer, a checksum and a date are pure
// functions.
//
// Invariants:
//
//   - An error is of type [Error] and has the reason, the server and the fix. No error has a password, a token, or a part of
//     an answer other than the messages of Infrahub, from which passwords and tokens are removed.
//   - Credentials go to the server of the URL alone: redirects are not followed.
//   - Each request has a time limit, and each answer a size limit.
//   - A list of artifacts is complete, or an error.
//
// The package knows nothing of Kubernetes objects but the reasons in pkg/api.
package infrahub
