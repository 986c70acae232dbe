// Package breakglass answers the annotations with which a user exempts an object from reverts for a
// limited time (ADR 24). It is pure.
package breakglass
