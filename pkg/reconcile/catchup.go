package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const (
	// catchUpRetry is the delay before a cache that is behind is compared again.
	catchUpRetry = 100 * time.Millisecond
	// catchUpTimeout bounds the list of the VidraResources.
	catchUpTimeout = 30 * time.Second
	// catchUpRead is how long a cache is behind the list before a VidraResource is read: etcd may have been restored from a backup since the list.
	catchUpRead = time.Second
	// catchUpLog is the interval of the lines of the log about a cache that stays behind, and of the reads of a VidraResource with an awaited event.
	catchUpLog = time.Minute
)

// catchUp delays the first reconcile of each VidraResource until the cache shows it as the API server had it at the first
// reconcile of this process, or later. A cache begins with the watch cache of one API server, which may be behind the others,
// and a replica that begins to lead may be behind the former leader. A reconcile of a former state would create removed
// objects again. The zero value is ready to use, and safe for concurrent use.
type catchUp struct {
	listing singleflight.Group

	// mu guards the following fields.
	mu sync.Mutex
	// listed are the VidraResources of the list, or of a later read, and version is the resourceVersion of the list. listed is nil before the list.
	listed  map[string]listedVersion
	version string
	// logged is the time of the latest log line.
	logged time.Time
}

// listedVersion is a VidraResource in the list, or in a later read.
type listedVersion struct {
	uid        types.UID
	generation int64
	deleting   bool
	version    string
	// shown is whether the cache has shown its generation.
	shown bool
	// unread reports that its state is still to be read: a write met another one.
	unread bool
	// awaited is the time of the next read, once the cache was behind the list, or a read found another VidraResource or spec; another version in the
	// cache brings that one forward. Zero before.
	awaited time.Time
}

// versionOf returns the version of a VidraResource.
func versionOf(m metav1.Object) listedVersion {
	return listedVersion{uid: m.GetUID(), generation: m.GetGeneration(), deleting: m.GetDeletionTimestamp() != nil, version: m.GetResourceVersion()}
}

// reached reports whether the cache shows a VidraResource in the state of the list, or a later one. The first call lists. It fails if
// the LIST of VidraResources fails.
func (c *catchUp) reached(ctx context.Context, of metadata.ResourceInterface, vr *v1alpha1.VidraResource) (bool, error) {
	if _, err, _ := c.listing.Do("", func() (any, error) { return nil, c.list(ctx, of) }); err != nil {
		return false, fmt.Errorf("list the VidraResources, as the cache may be behind the API server: %w", object.WithoutValues(err, ownership.Disclosure{}))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(vr.ResourceVersion, c.version); err != nil || order > 0 {
		return true, nil // an API server without comparable versions shows nothing
	}
	if is := c.listed[vr.Name]; is.uid == vr.UID && is.generation <= vr.Generation && (!is.deleting || vr.DeletionTimestamp != nil) { // or a later spec
		is.shown = true
		c.listed[vr.Name] = is
		return true, nil
	}
	c.logLocked(ctx, vr.ResourceVersion, c.version)
	return false, nil
}

// logLocked logs that the cache is behind. c.mu must be held.
func (c *catchUp) logLocked(ctx context.Context, seen, known string) {
	if now := time.Now(); now.Sub(c.logged) >= catchUpLog {
		c.logged = now
		log.FromContext(ctx).Info("The watch of VidraResources is behind the API server: they are reconciled when it has caught up", "known", known, "seen", seen)
	}
}

// latest returns a VidraResource in the latest state that is known; nil while the cache is behind the API server. A VidraResource that stays older than the
// list is compared with the API server: the list was before the restoration of etcd. While the cache has a former status alone, it
// is read from the API server: a former status is no knowledge about the objects, and an edit since then would be overwritten without a record. It fails
// if a read fails. has reports whether the operator may reconcile a VidraResource that the cache does not show yet.
func (c *catchUp) latest(ctx context.Context, of metadata.ResourceInterface, api client.Reader, vr *v1alpha1.VidraResource, has func(*v1alpha1.VidraResource) bool) (*v1alpha1.VidraResource, error) {
	reached, err := c.reached(ctx, of, vr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	is := c.listed[vr.Name]
	if !reached && is.awaited.IsZero() {
		is.awaited = time.Now().Add(catchUpRead)
		c.listed[vr.Name] = is
	}
	c.mu.Unlock()
	switch behind := cluster.Older(vr.ResourceVersion, is.version); {
	case time.Now().Before(is.awaited) && (is.unread && is.version == vr.ResourceVersion || !is.unread && !reached):
		return nil, nil
	case reached && (is.uid != vr.UID || !is.unread && !behind):
		return vr, nil
	}
	now := &v1alpha1.VidraResource{}
	err = api.Get(ctx, client.ObjectKeyFromObject(vr), now)
	gone := object.IsAbsent(err, vr.Name)
	if err != nil && !gone {
		return nil, fmt.Errorf("read the VidraResource, whose status in the cache is behind the API server: %w", err)
	}
	read := versionOf(now)
	current := !gone && read.uid == vr.UID && read.generation == vr.Generation && read.deleting == (vr.DeletionTimestamp != nil) && has(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !current { // its event follows
		c.logLocked(ctx, vr.ResourceVersion, read.version)
		read = versionOf(vr)
		read.unread, read.awaited = true, time.Now().Add(catchUpLog)
		now = nil
	}
	read.shown = true
	c.listed[vr.Name] = read
	return now, nil
}

// conflicted notes that a write of a VidraResource met a conflict: the cache may be behind another write.
func (c *catchUp) conflicted(vr *v1alpha1.VidraResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := versionOf(vr)
	is.shown, is.unread = true, true
	c.listed[vr.Name] = is // the list is made before the first write
}

// awaits is a predicate of the controller. It reports whether an update shows a state that a write or a read met before the cache.
func (c *catchUp) awaits(e event.UpdateEvent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.listed[e.ObjectNew.GetName()]
	return is.unread && is.uid == e.ObjectOld.GetUID() && e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
}

// list reads the VidraResources of the API server, once.
func (c *catchUp) list(ctx context.Context, of metadata.ResourceInterface) error {
	c.mu.Lock()
	begun := c.listed != nil
	c.mu.Unlock()
	if begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpTimeout)
	defer cancel()
	listed := map[string]listedVersion{}
	version, err := cluster.VisitMetadata(ctx, of, func(m *metav1.PartialObjectMetadata) {
		listed[m.Name] = versionOf(m)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.listed = version, listed
	return nil
}

// forget forgets a VidraResource that has left the cache. One that the cache is still to show is kept: another VidraResource of its
// name, from before the list, has left.
func (c *catchUp) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is := c.listed[name]; is.shown || is.uid == "" {
		delete(c.listed, name)
	}
}
