// Package restricted tests config/restricted on a real API server: what docs/security.md
// says of who can do what there, each with a tenant who tries. The operator runs with the
// flags of its Deployment.
package restricted
