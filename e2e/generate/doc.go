// Package generate holds the test that what `make generate` makes is what is
// committed: CRD, RBAC and deepcopy follow from the Go types and their markers,
// and a change of those without the files is a change that nobody gets.
package generate
