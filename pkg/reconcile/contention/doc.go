// Package contention counts how often an object is reverted, names the writer that keeps
// changing it, and says when its next heal is due.
//
// It is pure but for its clock, which callers give. A heal is delayed only under sustained
// load, and never for longer than spec.drift.maxExposure (ADR 19).
package contention
