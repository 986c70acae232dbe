package status

import (
	"runtime"
	"slices"
	"sync"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Inventories has the inventory of each VidraResource as it was last written, so that the cache of VidraResources may
// drop it. It is safe for concurrent use. The zero value is usable.
type Inventories struct {
	// written has lists of entries, which must stay as they are, by the names of the VidraResources.
	written sync.Map
	// dropped has the number of bytes that the cache drops of each VidraResource, as *int, by name.
	dropped sync.Map
	// refused has that number of the VidraResources that were too large with it, by name.
	refused sync.Map
}

// Refuse notes that a VidraResource is too large with the bytes that the cache drops.
func (i *Inventories) Refuse(name string) { i.refused.Store(name, i.Dropped(name)) }

// Accept notes that a VidraResource is small enough.
func (i *Inventories) Accept(name string) { i.refused.Delete(name) }

// Lightened reports whether the cache drops less of a VidraResource than when it was too large.
func (i *Inventories) Lightened(name string) bool {
	bytes, found := i.refused.Load(name)
	n, _ := bytes.(int) // only Refuse stores any
	return found && i.Dropped(name) < n
}

// Drop notes how many bytes of a VidraResource the cache drops, for as long as the cache has it. A replica that waits forgets no VidraResource itself.
func (i *Inventories) Drop(vr *v1alpha1.VidraResource, bytes int) {
	if bytes == 0 {
		i.dropped.Delete(vr.Name)
		return
	}
	name, is := vr.Name, &bytes
	i.dropped.Store(name, is)
	runtime.AddCleanup(vr, func(is *int) { i.dropped.CompareAndDelete(name, is) }, is)
}

// Dropped returns how many bytes of a VidraResource the cache drops.
func (i *Inventories) Dropped(name string) int {
	bytes, _ := i.dropped.Load(name)
	if is, found := bytes.(*int); found { // only Drop stores any
		return *is
	}
	return 0
}

// Write notes an inventory that is about to be written, and must stay as it is from now on.
func (i *Inventories) Write(name string, entries []v1alpha1.ManagedResourceStatus) {
	i.written.Store(name, entries)
}

// Forget drops the inventory of a VidraResource.
func (i *Inventories) Forget(name string) {
	i.written.Delete(name)
	i.dropped.Delete(name)
	i.refused.Delete(name)
}

// Share replaces the inventory of a VidraResource that was read by the written one. It only reports false if
// they differ, or an entry has a part of its own, such as BreakGlass.
func (i *Inventories) Share(vr *v1alpha1.VidraResource) bool {
	entries, found := i.written.Load(vr.Name)
	if !found {
		return false
	}
	written, _ := entries.([]v1alpha1.ManagedResourceStatus) // only Write stores any
	if !slices.Equal(written, vr.Status.ManagedResources) {
		return false
	}
	vr.Status.ManagedResources = written
	return true
}
