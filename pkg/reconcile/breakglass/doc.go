// Package breakglass answers the annotations by means of which a user exempts an object from reverts for a limited time (ADR
// 24). It is pure.
package breakglass
