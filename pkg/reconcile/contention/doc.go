// Package contention counts how often an object is reverted, names the writer that keeps
// changing it, and computes when its next heal is due.
//
// It sends no request, and callers give the time. A heal is delayed only under sustained
// load, and for spec.drift.maxExposure at most (ADR 19).
package contention
