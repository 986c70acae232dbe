package limits

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// GateSlots is how many objects have requests in flight.
const GateSlots = 240

// The bounds of both classes together in all and at one cluster. Routine work takes a part of them, so that heals always find slots.
var (
	gateOfAll     = bound{both: GateSlots, routine: 120}
	gateOfCluster = bound{both: 160, routine: 96}
)

// routineOfKind is the bound of routine work about one kind of a cluster.
const routineOfKind = 64

// The bounds of one VidraResource for each class, and of one kind of it: at first, at most, and after an unanswered request. Each
// answer doubles the bound of a kind for routine work, and restores the first one for heals.
var (
	gateOfVidraResource   = perClass{heals: 32, routine: 16}
	gateOfOwnKindFirst    = perClass{heals: 16, routine: 4}
	gateOfOwnKind         = perClass{heals: 16, routine: 16}
	gateOfOwnKindThatHung = perClass{heals: 1, routine: 2}
)

// For besideHealsFor after a heal of their VidraResource begins, and after it ends, the requests of a reconcile about one kind have besideHeals slots: an API
// server that executes many requests answers each of them later, the heal too.
const (
	besideHeals    = 2
	besideHealsFor = time.Second
)

const (
	// hangsAfter is how long a request of routine work may last until it hangs: then it has ceased to take a slot from other VidraResources and from other
	// kinds, unless maxHanging others hang.
	hangsAfter = 2 * time.Second
	maxHanging = 120
)

// bound is a bound of both classes together, and of the part of routine work.
type bound struct{ both, routine int }

// class is a class of requests.
type class int

const (
	// heals are the requests of the loop of objects, which come first.
	heals class = iota
	// routine are the requests of reconciles.
	routine
	classes
)

// perClass has a number for each class.
type perClass [classes]int

// fits reports whether one more of a class fits into a bound.
func (p perClass) fits(c class, b bound) bool {
	return p.free(b) > 0 && (c == heals || p[routine] < b.routine)
}

// free returns how many slots of a bound are free.
func (p perClass) free(b bound) int { return b.both - p[heals] - p[routine] }

// Gate bounds the objects with requests in flight. A heal that finds no slot waits without a worker: the work that ends wakes the next, heals
// first and round-robin over the VidraResources. Work about one kind of a VidraResource has the order of its arrival, and its kinds have any
// order. It is safe for concurrent use.
type Gate struct {
	// Wake enqueues a heal that has got a slot, and enters the Gate next. It must not block.
	Wake func(trigger.Heal)

	// mu guards the fields below.
	mu       sync.Mutex
	total    perClass
	clusters map[string]perClass
	kinds    map[kindOfCluster]perClass
	shares   map[trigger.Owner]*gateShare
	// hanging is how many requests hang.
	hanging int
	// turns are the VidraResources with work of each class that waits, the next one first. waits counts that work by its kinds.
	turns [classes][]trigger.Owner
	waits map[kindOfCluster]perClass
	// absent are the heals that wait (false), or have a slot and are still to enter (true).
	absent map[trigger.Heal]bool
}

type kindOfCluster struct {
	cluster string
	kind    schema.GroupResource
}

// gateShare is the part of one VidraResource.
type gateShare struct {
	held  perClass
	kinds map[kindOfCluster]*gateLine
	// healed is when a heal began or ended last.
	healed time.Time
}

// routineBound returns how many requests of reconciles about a kind may be in flight. Once heals have ended, each request of a reconcile that ends
// makes room for further ones.
func (s *gateShare) routineBound(line *gateLine) int {
	if time.Since(s.healed) < besideHealsFor {
		return min(line.bound(routine), besideHeals)
	}
	return line.bound(routine)
}

// gateLine is the part of one kind of a VidraResource.
type gateLine struct {
	held perClass
	// own are the bounds that the last answers have left; zero for the first ones.
	own   perClass
	waits [classes][]gateWait
}

// gateWait is work that waits.
type gateWait struct {
	heal trigger.Heal
	// granted is closed when routine work has got a slot; nil for heals.
	granted chan struct{}
}

// Answer is the knowledge about the API server after a request.
type Answer int

const (
	// NotAsked means that no request was sent.
	NotAsked Answer = iota
	// Answered means that the last request was answered.
	Answered
	// Unanswered means that it stayed unanswered, or that a webhook failed to answer the API server.
	Unanswered
)

func kindOf(h trigger.Heal) kindOfCluster {
	return kindOfCluster{h.Key.Cluster, h.Key.GVR.GroupResource()}
}

// NewGate returns an empty Gate.
func NewGate(wake func(trigger.Heal)) *Gate {
	return &Gate{
		Wake: wake, clusters: map[string]perClass{}, kinds: map[kindOfCluster]perClass{}, shares: map[trigger.Owner]*gateShare{},
		waits: map[kindOfCluster]perClass{}, absent: map[trigger.Heal]bool{},
	}
}

// Enter reports whether a heal has a slot, which Leave releases. Otherwise Wake is called when it has got one. The
// heals of one object must not overlap.
func (g *Gate) Enter(h trigger.Heal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if woken, waits := g.absent[h]; woken {
		delete(g.absent, h)
		return true
	} else if waits {
		return false
	}
	if g.tryLocked(h, heals) {
		return true
	}
	g.awaitLocked(h, heals, nil)
	g.absent[h] = false
	return false
}

// Leave releases the slot of a heal.
func (g *Gate) Leave(h trigger.Heal, answer Answer) { g.leave(h, heals, answer) }

// Routine waits for a slot for a request of a reconcile about an object. leave releases it.
func (g *Gate) Routine(ctx context.Context, h trigger.Heal) (leave func(Answer), err error) {
	g.mu.Lock()
	if g.tryLocked(h, routine) {
		g.mu.Unlock()
		return g.routineSlot(h), nil
	}
	granted := make(chan struct{})
	g.awaitLocked(h, routine, granted)
	g.mu.Unlock()
	select {
	case <-granted:
		return g.routineSlot(h), nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	line := g.lineLocked(h)
	i := slices.IndexFunc(line.waits[routine], func(w gateWait) bool { return w.granted == granted })
	if i >= 0 {
		line.waits[routine] = slices.Delete(line.waits[routine], i, i+1)
		addTo(g.waits, kindOf(h), routine, -1)
		if !g.shares[h.Owner].waits(routine) {
			g.turns[routine] = slices.DeleteFunc(g.turns[routine], func(owner trigger.Owner) bool { return owner == h.Owner })
		}
		g.forgetUnused(h.Owner)
	}
	g.mu.Unlock()
	if i < 0 { // it was granted meanwhile
		g.leave(h, routine, NotAsked)
	}
	return nil, ctx.Err()
}

// routineSlot returns the release of a slot that routine work has got, and has its request hang after a while.
func (g *Gate) routineSlot(h trigger.Heal) (leave func(Answer)) {
	hangs, left := false, false
	timer := time.AfterFunc(hangsAfter, func() {
		g.mu.Lock()
		var next []gateWait
		if !left && g.hanging < maxHanging {
			hangs = true
			g.hanging++
			g.addShared(g.shares[h.Owner], kindOf(h), routine, -1)
			next = g.next()
		}
		g.mu.Unlock()
		g.wake(next)
	})
	return func(answer Answer) {
		timer.Stop()
		g.mu.Lock()
		if left = true; hangs {
			g.hanging--
			g.addShared(g.shares[h.Owner], kindOf(h), routine, 1)
		}
		next := g.leaveLocked(h, routine, answer)
		g.mu.Unlock()
		g.wake(next)
	}
}

// tryLocked takes a slot if one is free. g.mu must be held, here and below.
func (g *Gate) tryLocked(h trigger.Heal, c class) bool {
	line, kind := g.lineLocked(h), kindOf(h)
	share := g.shares[h.Owner]
	if len(line.waits[c]) > 0 || !g.fits(share, line, kind, c) {
		return false
	}
	g.add(share, line, kind, c, 1)
	return true
}

func (g *Gate) awaitLocked(h trigger.Heal, c class, granted chan struct{}) {
	line := g.lineLocked(h)
	if !g.shares[h.Owner].waits(c) {
		g.turns[c] = append(g.turns[c], h.Owner)
	}
	line.waits[c] = append(line.waits[c], gateWait{h, granted})
	addTo(g.waits, kindOf(h), c, 1)
}

// lineLocked returns the part of a kind of a VidraResource, which it makes if absent.
func (g *Gate) lineLocked(h trigger.Heal) *gateLine {
	share := g.shares[h.Owner]
	if share == nil {
		share = &gateShare{kinds: map[kindOfCluster]*gateLine{}}
		g.shares[h.Owner] = share
	}
	line := share.kinds[kindOf(h)]
	if line == nil {
		line = &gateLine{}
		share.kinds[kindOf(h)] = line
	}
	return line
}

func (g *Gate) leave(h trigger.Heal, c class, answer Answer) {
	g.mu.Lock()
	next := g.leaveLocked(h, c, answer)
	g.mu.Unlock()
	g.wake(next)
}

// wake has work begin that has got slots.
func (g *Gate) wake(next []gateWait) {
	for _, w := range next {
		if w.granted != nil {
			close(w.granted)
		} else {
			g.Wake(w.heal)
		}
	}
}

func (g *Gate) leaveLocked(h trigger.Heal, c class, answer Answer) []gateWait {
	share, line := g.shares[h.Owner], g.lineLocked(h)
	g.add(share, line, kindOf(h), c, -1)
	switch answer {
	case NotAsked:
	case Answered:
		line.own[c] = min(gateOfOwnKind[c], max(gateOfOwnKindFirst[c], 2*line.bound(c)))
	case Unanswered:
		line.own[c] = gateOfOwnKindThatHung[c]
	}
	g.forgetUnused(h.Owner)
	return g.next()
}

// Forget forgets the unanswered requests of a VidraResource.
func (g *Gate) Forget(owner trigger.Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if share := g.shares[owner]; share != nil {
		for _, line := range share.kinds {
			line.own = perClass{}
		}
		g.forgetUnused(owner)
	}
}

// fits reports whether a slot is free. Heals of one kind take at most as many slots of their VidraResource as they leave.
func (g *Gate) fits(share *gateShare, line *gateLine, kind kindOfCluster, c class) bool {
	if c == heals {
		return line.held[heals] < min(line.bound(heals), gateOfVidraResource[heals]-share.held[heals]) && g.sharedFits(kind, c)
	}
	return line.held[routine] < share.routineBound(line) && share.held[routine] < gateOfVidraResource[routine] && g.sharedFits(kind, c)
}

// sharedFits reports whether a slot is free in the bounds that VidraResources share. Heals of one kind take at most as many slots of their cluster
// as they leave, and heals at one cluster as many of all: each further kind or cluster that hangs finds half of the rest.
func (g *Gate) sharedFits(kind kindOfCluster, c class) bool {
	cluster := g.clusters[kind.cluster]
	if c == heals {
		leavesAll := g.total.free(gateOfAll) - cluster[heals]
		return leavesAll > 0 && min(leavesAll, cluster.free(gateOfCluster)) > g.kinds[kind][heals]
	}
	return g.kinds[kind][routine] < routineOfKind && cluster.fits(routine, gateOfCluster) && g.total.fits(routine, gateOfAll)
}

func (g *Gate) add(share *gateShare, line *gateLine, kind kindOfCluster, c class, n int) {
	line.held[c] += n
	if c == heals {
		share.healed = time.Now()
	}
	g.addShared(share, kind, c, n)
}

// addShared adds to the slots that a kind of a VidraResource shares: with its other kinds, and with other VidraResources.
func (g *Gate) addShared(share *gateShare, kind kindOfCluster, c class, n int) {
	share.held[c] += n
	g.total[c] += n
	addTo(g.kinds, kind, c, n)
	addTo(g.clusters, kind.cluster, c, n)
}

// addTo adds to a number in a map, which leaves out zeros.
func addTo[K comparable](all map[K]perClass, key K, c class, n int) {
	held := all[key]
	held[c] += n
	all[key] = held
	if held == (perClass{}) {
		delete(all, key)
	}
}

// next gives free slots to work that waits, heals first. It ends once no kind has a free slot, so that its time does not grow with the number of
// VidraResources that wait.
func (g *Gate) next() (woken []gateWait) {
	for c := range classes {
		turns := g.turns[c]
		for i, room := 0, g.hasRoom(c); room && i < len(turns); {
			owner := turns[i]
			w, got := g.nextOf(g.shares[owner], c)
			if !got { // the slots only become fewer
				i++
				continue
			}
			woken = append(woken, w)
			copy(turns[1:i+1], turns[:i])
			if turns = turns[1:]; g.shares[owner].waits(c) {
				turns = append(turns, owner)
			}
			room = g.hasRoom(c)
		}
		g.turns[c] = turns
	}
	return woken
}

// hasRoom reports whether a slot is free for a kind with work of a class that waits, in the bounds that VidraResources share.
func (g *Gate) hasRoom(c class) bool {
	for kind, waiting := range g.waits {
		if waiting[c] > 0 && g.sharedFits(kind, c) {
			return true
		}
	}
	return false
}

// waits reports whether work of a class of a VidraResource waits.
func (s *gateShare) waits(c class) bool {
	for _, line := range s.kinds {
		if len(line.waits[c]) > 0 {
			return true
		}
	}
	return false
}

// nextOf gives a slot to work of a class of one VidraResource.
func (g *Gate) nextOf(share *gateShare, c class) (w gateWait, got bool) {
	for kind, line := range share.kinds {
		if len(line.waits[c]) > 0 && g.fits(share, line, kind, c) {
			w = line.waits[c][0]
			line.waits[c] = line.waits[c][1:]
			addTo(g.waits, kind, c, -1)
			g.add(share, line, kind, c, 1)
			if c == heals {
				g.absent[w.heal] = true
			}
			return w, true
		}
	}
	return gateWait{}, false
}

// bound returns how many requests of a class may be in flight, after the last answers.
func (l *gateLine) bound(c class) int {
	return cmp.Or(l.own[c], gateOfOwnKindFirst[c])
}

// hung reports whether the last request of a class was unanswered.
func (l *gateLine) hung() bool {
	return l.bound(heals) < gateOfOwnKindFirst[heals] || l.bound(routine) < gateOfOwnKindFirst[routine]
}

// forgetUnused forgets the idle kinds of a VidraResource whose last requests were answered.
func (g *Gate) forgetUnused(owner trigger.Owner) {
	share := g.shares[owner]
	for kind, line := range share.kinds {
		if line.held == (perClass{}) && len(line.waits[heals])+len(line.waits[routine]) == 0 && !line.hung() {
			delete(share.kinds, kind)
		}
	}
	if len(share.kinds) == 0 {
		delete(g.shares, owner)
	}
}
