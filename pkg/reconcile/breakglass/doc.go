// Package breakglass answers the annotations that exempt an object from reverts for a limited time (ADR
// 24). It is pure.
package breakglass
