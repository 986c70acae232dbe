package limits

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// The bounds of a Gate: heals in flight at all, and of them those at one cluster, of one kind of a cluster, of one
// VidraResource, and of one kind of a VidraResource. What does not answer takes a part of them.
const (
	GateSlots             = 240
	gateOfCluster         = 160
	gateOfKind            = 96
	gateOfVidraResource   = 32
	gateOfOwnKind         = 16
	gateOfOwnKindThatHung = 1
)

// Gate bounds the heals in flight. A heal that finds no slot waits without a worker: the heal that ends wakes the next,
// in the order of their arrival and round-robin over the VidraResources. It is safe for concurrent use.
type Gate struct {
	// Wake enqueues a heal that has got a slot, and enters the Gate next. It must not block.
	Wake func(trigger.Heal)

	// mu guards the fields below.
	mu       sync.Mutex
	total    int
	clusters map[string]int
	kinds    map[kindOfCluster]int
	shares   map[trigger.Owner]*gateShare
	// turns are the VidraResources with heals that wait, the next one first.
	turns []trigger.Owner
	// woken are the heals with a slot that have not entered yet, waiting those that wait.
	woken, waiting map[trigger.Heal]bool
}

type kindOfCluster struct {
	cluster string
	kind    schema.GroupResource
}

// gateShare is the part of one VidraResource.
type gateShare struct {
	held  int
	kinds map[kindOfCluster]*gateLine
}

// gateLine is the part of one kind of a VidraResource.
type gateLine struct {
	held int
	// hung reports that the last request got no answer.
	hung  bool
	waits []trigger.Heal
}

// Answer is what a heal found out about the API server.
type Answer int

const (
	// NotAsked means that no request was sent.
	NotAsked Answer = iota
	// Answered means that the last request was answered.
	Answered
	// Unanswered means that it was not, or that a webhook did not answer the API server.
	Unanswered
)

func kindOf(h trigger.Heal) kindOfCluster {
	return kindOfCluster{h.Key.Cluster, h.Key.GVR.GroupResource()}
}

// NewGate returns a Gate without heals.
func NewGate(wake func(trigger.Heal)) *Gate {
	return &Gate{
		Wake: wake, clusters: map[string]int{}, kinds: map[kindOfCluster]int{}, shares: map[trigger.Owner]*gateShare{},
		woken: map[trigger.Heal]bool{}, waiting: map[trigger.Heal]bool{},
	}
}

// Enter reports whether a heal has a slot, which Leave releases. Otherwise Wake is called when it has got one. The
// heals of one object must not overlap.
func (g *Gate) Enter(h trigger.Heal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.woken[h]:
		delete(g.woken, h)
		return true
	case g.waiting[h]:
		return false
	}
	share := g.shares[h.Owner]
	if share == nil {
		share = &gateShare{kinds: map[kindOfCluster]*gateLine{}}
		g.shares[h.Owner] = share
	}
	kind := kindOf(h)
	line := share.kinds[kind]
	if line == nil {
		line = &gateLine{}
		share.kinds[kind] = line
	}
	if len(line.waits) == 0 && g.fits(share, line, kind) {
		g.add(share, line, kind, 1)
		return true
	}
	line.waits = append(line.waits, h)
	g.waiting[h] = true
	if !slices.Contains(g.turns, h.Owner) {
		g.turns = append(g.turns, h.Owner)
	}
	return false
}

// Leave releases the slot of a heal.
func (g *Gate) Leave(h trigger.Heal, answer Answer) {
	g.mu.Lock()
	share, kind := g.shares[h.Owner], kindOf(h)
	line := share.kinds[kind]
	g.add(share, line, kind, -1)
	if answer != NotAsked {
		line.hung = answer == Unanswered
	}
	g.forgetUnused(h.Owner)
	next := g.next()
	g.mu.Unlock()
	for _, h := range next {
		g.Wake(h)
	}
}

// Forget forgets that requests of a VidraResource got no answer.
func (g *Gate) Forget(owner trigger.Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if share := g.shares[owner]; share != nil {
		for _, line := range share.kinds {
			line.hung = false
		}
		g.forgetUnused(owner)
	}
}

// fits reports whether a slot is free. g.mu must be held, here and below.
func (g *Gate) fits(share *gateShare, line *gateLine, kind kindOfCluster) bool {
	own := gateOfOwnKind
	if line.hung {
		own = gateOfOwnKindThatHung
	}
	return line.held < own && share.held < gateOfVidraResource && g.kinds[kind] < gateOfKind && g.clusters[kind.cluster] < gateOfCluster &&
		g.total < GateSlots
}

func (g *Gate) add(share *gateShare, line *gateLine, kind kindOfCluster, n int) {
	line.held += n
	share.held += n
	g.kinds[kind] += n
	g.clusters[kind.cluster] += n
	g.total += n
	if g.kinds[kind] == 0 {
		delete(g.kinds, kind)
	}
	if g.clusters[kind.cluster] == 0 {
		delete(g.clusters, kind.cluster)
	}
}

// next gives free slots to heals that wait.
func (g *Gate) next() (woken []trigger.Heal) {
	for given := true; given && g.total < GateSlots; {
		given = false
		var passed, served []trigger.Owner
		for _, owner := range g.turns {
			h, got, more := g.nextOf(g.shares[owner])
			switch {
			case got:
				woken, given = append(woken, h), true
				if more {
					served = append(served, owner)
				}
			case more:
				passed = append(passed, owner)
			}
		}
		g.turns = slices.Concat(passed, served)
	}
	return woken
}

// nextOf gives a slot to a heal of one VidraResource; more reports whether others of it wait.
func (g *Gate) nextOf(share *gateShare) (h trigger.Heal, got, more bool) {
	for kind, line := range share.kinds {
		if !got && len(line.waits) > 0 && g.fits(share, line, kind) {
			h, got = line.waits[0], true
			line.waits = line.waits[1:]
			g.add(share, line, kind, 1)
			delete(g.waiting, h)
			g.woken[h] = true
		}
		more = more || len(line.waits) > 0
	}
	return h, got, more
}

// forgetUnused forgets the kinds of a VidraResource about which nothing is to be remembered.
func (g *Gate) forgetUnused(owner trigger.Owner) {
	share := g.shares[owner]
	for kind, line := range share.kinds {
		if line.held == 0 && len(line.waits) == 0 && !line.hung {
			delete(share.kinds, kind)
		}
	}
	if len(share.kinds) == 0 {
		delete(g.shares, owner)
	}
}
