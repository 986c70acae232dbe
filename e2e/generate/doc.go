// Package generate holds the tests of what is derived from the code: the files of
// `make generate` (CRD, RBAC, deepcopy), the generated parts of the docs, and the links,
// commands and names of tests in the docs, and the texts that seeded faults replace.
//
// VIDRA_GENERATE=1 makes the tests of generated docs write them instead of comparing them.
package generate
