package ui

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

const (
	// mostObserved is how many objects of a VidraResource are observed at most.
	mostObserved = 300
	// mostListed is how many objects of a kind in a namespace are listed at most to find those.
	mostListed = 2000
	// pageSize is how many objects a request for them has.
	pageSize = 500
	// mostEdits is how many observed edits are kept.
	mostEdits = 500
)

// observers follow the objects of open pages by watches. They know the values of an edit and how long it stood, which the status and
// Events of a VidraResource lack. It is the feedHandler of all kinds of objects.
type observers struct {
	server *Server

	// mu guards the fields below.
	mu     sync.Mutex
	topics map[string]*openTopic
	all    map[object.Identity]*observed
	// edits are observed edits, the newest first.
	edits []*edit
}

// openTopic is a topic with open pages.
type openTopic struct {
	users int
	// cancel ends the requests about it.
	ctx    context.Context
	cancel context.CancelFunc
	// feeds are the watches that it uses, and objects the objects that it observes.
	feeds   map[feedSpec]func()
	objects map[object.Identity]bool
	// changed has a value when the inventory changed since the objects were determined.
	changed parallel.Signal
	// ready is closed once no edit of the objects is missed, and isReady calls that.
	ready   chan struct{}
	isReady func()
}

// observed is an object that is observed for one or several topics.
type observed struct {
	users  int
	owners []*observer
}

func newObservers(s *Server) *observers {
	return &observers{server: s, topics: map[string]*openTopic{}, all: map[object.Identity]*observed{}}
}

// open observes the objects of a topic until end is called. From ready on, no edit is missed.
func (o *observers) open(topic string) (ready <-chan struct{}, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.topics[topic]
	if t == nil {
		t = &openTopic{feeds: map[feedSpec]func(){}, objects: map[object.Identity]bool{}, changed: parallel.NewSignal(), ready: make(chan struct{})}
		t.isReady = sync.OnceFunc(func() { close(t.ready) })
		t.ctx, t.cancel = context.WithCancel(context.Background())
		o.topics[topic] = t
		go o.follow(topic, t)
	}
	t.users++
	return t.ready, sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if t.users--; t.users > 0 {
			return
		}
		t.cancel()
		delete(o.topics, topic)
		for _, end := range t.feeds {
			end()
		}
		o.keepLocked(t, nil)
	})
}

// keepLocked ends the observation of all but some objects for a topic.
func (o *observers) keepLocked(t *openTopic, kept map[object.Identity]bool) {
	for id := range t.objects {
		if kept[id] {
			continue
		}
		delete(t.objects, id)
		if o.all[id].users--; o.all[id].users == 0 {
			delete(o.all, id)
		}
	}
}

// inventoryChanged observes the objects that a VidraResource has got, if its page is open.
func (o *observers) inventoryChanged(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.topics[vidraResourceTopic(name)]; t != nil {
		t.changed.Send()
	}
}

// follow observes the objects of a topic until it is closed, and those of each inventory anew.
func (o *observers) follow(topic string, t *openTopic) {
	for {
		o.begin(topic, t)
		select {
		case <-t.changed:
		case <-t.ctx.Done():
			return
		}
	}
}

// begin finds the objects of a topic and observes them.
func (o *observers) begin(topic string, t *openTopic) {
	defer o.server.feeds.use(vidraResourceFeed, o.server.store)()
	known, _ := o.server.store.awaitAll(t.ctx)
	if t.ctx.Err() != nil {
		return
	}
	if known {
		o.observeTopic(topic, t)
		if !o.settled(t) {
			return
		}
	}
	t.isReady()
}

// observeTopic observes the objects of a topic.
func (o *observers) observeTopic(topic string, t *openTopic) {
	if name, is := strings.CutPrefix(topic, vidraResourcePrefix); is {
		e := o.server.store.entry(name)
		if e == nil || insight.Remote(e.vr) {
			return
		}
		entries := slices.Clone(e.vr.Status.ManagedResources)
		slices.SortStableFunc(entries, compareObjects)
		entries = entries[:min(len(entries), mostObserved)]
		present := map[object.Identity]bool{}
		for i := range entries {
			present[object.IdentityOf(&entries[i])] = true
		}
		o.mu.Lock()
		o.keepLocked(t, present)
		o.mu.Unlock()
		for i := range entries {
			o.observe(t, e.vr, &entries[i])
		}
		return
	}
	id := identityOf(topic)
	for _, e := range o.server.store.sorted() {
		if entry := owners.EntryOf(e.vr, id); entry != nil && !insight.Remote(e.vr) {
			o.observe(t, e.vr, entry)
		}
	}
}

// settled reads the objects of each watch of a topic once it has begun, also of the watches of namespaces after a refusal. It reports whether
// all have before the topic was closed or changed.
func (o *observers) settled(t *openTopic) bool {
	var reads sync.WaitGroup
	defer reads.Wait()
	for begun := map[feedSpec]bool{}; ; {
		var specs []feedSpec
		var waits []reflect.SelectCase
		o.mu.Lock()
		for spec := range t.feeds {
			if !begun[spec] {
				specs = append(specs, spec)
				waits = append(waits, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(o.server.feeds.began(spec))})
			}
		}
		o.mu.Unlock()
		if len(specs) == 0 {
			return true
		}
		waits = append(waits, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(t.ctx.Done())},
			reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(t.changed)})
		switch i, _, _ := reflect.Select(waits); i {
		case len(specs):
			return false
		case len(specs) + 1:
			t.changed.Send()
			return false
		default:
			begun[specs[i]] = true
			reads.Go(func() { o.baselines(t) })
		}
	}
}

// waiting are the kinds of topics whose watches have not begun.
func (o *observers) waiting(topics []string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	kinds := map[string]bool{}
	for _, topic := range topics {
		if t := o.topics[topic]; t != nil {
			for spec := range t.feeds {
				if !o.server.feeds.hasBegun(spec) {
					kinds[spec.gvr.GroupResource().String()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// observe observes an object of a VidraResource.
func (o *observers) observe(t *openTopic, vr *v1alpha1.VidraResource, entry *v1alpha1.ManagedResourceStatus) {
	id := object.IdentityOf(entry)
	mapping, err := o.server.cluster.Mapping(t.ctx, object.GVKOf(entry))
	if err != nil || t.ctx.Err() != nil {
		return // the page shows the problem of the VidraResource
	}
	manager := object.SignatureOf(v1alpha1.InstallationOf(vr), vr.Name).Manager
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.topicOpenLocked(t) {
		return
	}
	known := o.all[id]
	if known == nil {
		known = &observed{}
		o.all[id] = known
	}
	if !t.objects[id] {
		t.objects[id] = true
		known.users++
	}
	i := slices.IndexFunc(known.owners, func(w *observer) bool { return w.manager == manager })
	if i < 0 {
		known.owners = append(known.owners, &observer{vidraResource: vr.Name, manager: manager, id: id, gvr: mapping.GVR})
		i = len(known.owners) - 1
	}
	known.owners[i].sensitive = entry.Sensitive
	o.followLocked(t, objectFeed(mapping.GVR, ""), entry.Namespace)
}

// objectFeed is the watch of the managed objects of a kind.
func objectFeed(gvr schema.GroupVersionResource, namespace string) feedSpec {
	return feedSpec{gvr: gvr, namespace: namespace, labels: v1alpha1.ManagedByLabel + "=" + v1alpha1.ManagedByValue, news: true}
}

// followLocked has a topic use a watch of all namespaces, or of one if the user may not have the former.
func (o *observers) followLocked(t *openTopic, spec feedSpec, namespace string) {
	if o.server.feeds.refuses(spec) {
		spec.namespace = namespace
	}
	if t.feeds[spec] == nil && !o.server.feeds.refuses(spec) && o.topicOpenLocked(t) {
		t.feeds[spec] = o.server.feeds.use(spec, o)
	}
}

func (o *observers) topicOpenLocked(t *openTopic) bool { return t.ctx.Err() == nil }

// baselines reads the objects that no event has shown yet, and whose watch has begun: an edit is known by the state before it.
func (o *observers) baselines(t *openTopic) {
	missing := map[schema.GroupVersionResource]map[string][]object.Identity{} // by the kind and the namespace
	o.mu.Lock()
	for id := range t.objects {
		for _, w := range o.all[id].owners {
			if w.clean != nil || w.asked || !o.watchedLocked(t, w) || slices.Contains(missing[w.gvr][id.Namespace], id) {
				continue
			}
			w.asked = true
			if missing[w.gvr] == nil {
				missing[w.gvr] = map[string][]object.Identity{}
			}
			missing[w.gvr][id.Namespace] = append(missing[w.gvr][id.Namespace], id)
		}
	}
	o.mu.Unlock()
	var reads sync.WaitGroup
	for gvr, places := range missing {
		reads.Go(func() { // a kind without an answer delays no other one
			for namespace, ids := range places {
				o.read(t, gvr, namespace, ids)
			}
		})
	}
	reads.Wait()
}

// watchedLocked reports whether the watches of a topic for an object have begun.
func (o *observers) watchedLocked(t *openTopic, w *observer) bool {
	for _, namespace := range []string{"", w.id.Namespace} {
		if spec := objectFeed(w.gvr, namespace); t.feeds[spec] != nil && !o.server.feeds.hasBegun(spec) {
			return false
		}
	}
	return true
}

// read reads objects of a kind and a namespace.
func (o *observers) read(t *openTopic, gvr schema.GroupVersionResource, namespace string, ids []object.Identity) {
	ctx, cancel := context.WithTimeout(t.ctx, questionTimeout)
	defer cancel()
	objects := o.server.client.Resource(gvr).Namespace(namespace)
	const few = 3
	if len(ids) <= few {
		for _, id := range ids {
			u, err := objects.Get(ctx, id.Name, metav1.GetOptions{})
			if err != nil {
				o.unread([]object.Identity{id}, err)
				continue
			}
			o.see(u, read)
		}
		return
	}
	options := metav1.ListOptions{LabelSelector: objectFeed(gvr, "").labels, Limit: pageSize}
	for listed := 0; listed < mostListed; listed += pageSize {
		list, err := objects.List(ctx, options)
		if err != nil {
			o.unread(ids, err)
			return
		}
		for i := range list.Items {
			o.see(&list.Items[i], read)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return
		}
	}
}

// rereadAfter is the delay of the next read of objects after a request without an answer.
const rereadAfter = 2 * time.Second

// unread has objects be read later whose request had no answer; a refusal stands.
func (o *observers) unread(ids []object.Identity, err error) {
	if !unanswered(err) {
		return
	}
	time.AfterFunc(rereadAfter, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, id := range ids {
			if known := o.all[id]; known != nil {
				for _, w := range known.owners {
					w.asked = false
				}
			}
		}
		o.rereadLocked()
	})
}

// rereadLocked reads the objects of all topics that are unknown.
func (o *observers) rereadLocked() {
	for _, t := range o.topics {
		go o.baselines(t)
	}
}

// convert implements feedHandler.
func (o *observers) convert(u *unstructured.Unstructured) any { return u }

// set implements feedHandler.
func (o *observers) set(obj any, late bool) {
	from := event
	if late {
		from = lateEvent
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		o.see(u, from)
	}
}

// source is how a state of an object became known.
type source int

const (
	// read is the answer of a request; it counts only where no event came before.
	read source = iota
	// event is an event of a watch, and lateEvent one from a time without a connection.
	event
	lateEvent
)

// see takes a state of an object.
func (o *observers) see(u *unstructured.Unstructured, from source) {
	id, now := object.IdentityIn(u), time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.all[id]
	if known == nil {
		return
	}
	for _, w := range known.owners {
		if from == read && (w.clean != nil || w.pending != nil) {
			continue
		}
		if seen := w.see(u, now, from == lateEvent); seen != nil {
			o.noteLocked(seen)
		}
	}
	if from != read {
		o.server.hub.publish(objectTopic(id))
	}
}

// noteLocked keeps an edit that is new or has changed.
func (o *observers) noteLocked(e *edit) {
	if !slices.Contains(o.edits, e) {
		o.edits = slices.Insert(o.edits, 0, e)
		o.edits = o.edits[:min(len(o.edits), mostEdits)]
	}
	o.server.hub.publish(vidraResourceTopic(e.VidraResource))
}

// remove implements feedHandler.
func (o *observers) remove(obj any, late bool) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	id, now := object.IdentityIn(u), time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.all[id]
	if known == nil {
		return
	}
	for _, w := range known.owners {
		o.noteLocked(w.gone(now, late))
	}
	o.server.hub.publish(objectTopic(id))
}

// replace implements feedHandler: events may have been missed, so that the objects of the feed are read again.
func (o *observers) replace(spec feedSpec, _ []any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, known := range o.all {
		for _, w := range known.owners {
			if w.pending == nil && w.gvr == spec.gvr && (spec.namespace == "" || spec.namespace == id.Namespace) {
				w.clean, w.asked = nil, false
			}
		}
	}
	go func() { // the first list has the watch begin
		<-o.server.feeds.began(spec)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rereadLocked()
	}()
}

// refused implements feedHandler: if the user may not watch all namespaces, the namespaces of the objects are watched.
func (o *observers) refused(spec feedSpec, _ error) {
	if spec.namespace != "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.topics {
		end := t.feeds[spec]
		if end == nil {
			continue
		}
		delete(t.feeds, spec) // a later object asks for it again, once the refusal is forgotten
		end()
		for id := range t.objects {
			if slices.ContainsFunc(o.all[id].owners, func(w *observer) bool { return w.gvr == spec.gvr }) {
				o.followLocked(t, spec, id.Namespace)
			}
		}
	}
}

// ended implements feedHandler.
func (o *observers) ended() {}

// editsOf returns copies of the observed edits that are wanted, the newest first.
func (o *observers) editsOf(wanted func(*edit) bool) []edit {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []edit
	for _, e := range o.edits {
		if wanted(e) {
			found = append(found, *e)
		}
	}
	return found
}
