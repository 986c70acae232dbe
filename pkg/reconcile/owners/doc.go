// Package owners finds the other VidraResources that own an object (ADR 20).
//
// Field managers and annotations on an object only name owners: any user who may edit the object can
// write them. [Finder.CoOwners] therefore requires that the inventory of the VidraResource lists the object,
// that an apply of it is under way, or that the VidraResource is still unread and its manifest may have the object.
// [Claimant.Owns] answers another question: whether an object that the own inventory lists is still ours.
package owners
