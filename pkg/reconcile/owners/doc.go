// Package owners finds the other VidraResources that own an object (ADR 20).
//
// Field managers and annotations on an object only name owners: any user who may edit the object can
// write them. A VidraResource owns an object if its inventory lists it or an apply is under way.
package owners
