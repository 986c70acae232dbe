// Package metawatch watches the metadata of objects that a VidraResource depends on and leaves unmanaged: the causes of a refused
// apply, such as a ResourceQuota.
//
// Each key has a watch of its own, so that rights on its objects suffice, and ends with its last owner. A watch that the API
// server forbids ends, which saves its requests.
package metawatch
