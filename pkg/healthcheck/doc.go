// Package healthcheck computes the health of objects from the expressions of spec.healthChecks, for kinds that kstatus misjudges.
//
// It is pure: [Compile] translates expressions of the Common Expression Language to [Checks], and [Check.Evaluate] applies one to an object.
// An evaluation has a bounded cost, changes nothing, and is safe for concurrent use.
package healthcheck
