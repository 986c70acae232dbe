// Package search generates states and looks for faults in them: sequences of changes of up to three VidraResources that share and
// move objects, with edits of users and kills of the operator between them. It judges through the API server and
// its audit log alone, so that it holds while the engine is rebuilt. docs/correctness.md has the promises.
//
// VIDRA_PLANS is the number of plans, VIDRA_SEED the seed. A plan that fails is printed as YAML, the smallest one last: as a
// file in testdata it is a case of TestPlans.
package search
