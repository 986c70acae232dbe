// Package metawatch watches the metadata of objects that a VidraResource depends on and does not manage: the parts of its
// manifest, and the causes of a refused apply, such as a ResourceQuota.
//
// Each key has a watch of its own, so that no right is needed on other objects, and ends with its last owner. A watch that the API
// server forbids ends, so that it costs no request.
package metawatch
