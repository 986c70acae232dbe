package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// kindsOptions are the flags of kinds.
type kindsOptions struct {
	kinds   int
	edits   int
	timeout time.Duration
}

func (o *kindsOptions) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.kinds, "kinds", 300, "How many kinds are installed, each with a CustomResourceDefinition.")
	fs.IntVar(&o.edits, "rounds", 20, "How many edits are made on each side.")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long a part of it may take.")
}

func (o *kindsOptions) check() error {
	return errors.Join(atLeastOne("kinds", o.kinds), atLeastOne("rounds", o.edits))
}

func (o *kindsOptions) setup() setup { return setup{} }

// perKindSet is how many objects, each of another kind, are in a VidraResource.
const perKindSet = 10

// batch has an object of each kind.
func (o *kindsOptions) batch() batch {
	perSet := min(perKindSet, o.kinds)
	return batch{round: 7000, sets: o.kinds / perSet, perSet: perSet, kinds: o.kinds}
}

// measure measures how long it takes until an object of each kind is applied, and then how long an edit
// of one of them stands, while all kinds are watched.
func (o *kindsOptions) measure(ctx context.Context, l *lab) (*report, error) {
	if err := bounded(ctx, o.timeout, func(ctx context.Context) error { return l.installKinds(ctx, o.kinds) }); err != nil {
		return nil, err
	}
	b := o.batch()
	r := &report{
		Settings:    fmt.Sprintf("%d kinds, %d VidraResources with %d objects each, each of another kind, %d edits", o.kinds, b.sets, b.perSet, o.edits),
		Environment: l.environment,
	}
	work := contest{line: "an object of each kind applied", rounds: 1, of: b.objects(), per: "object"}
	vidra := vidraTurn(func(ctx context.Context) error { return l.rollOut(ctx, b) })
	err := bounded(ctx, o.timeout, func(ctx context.Context) error {
		return l.inTurns(ctx, r, work, 0, l.turns(opApply, b, vidra))
	})
	if err != nil {
		return nil, err
	}
	if err := o.edit(ctx, l, r, b); err != nil {
		return nil, err
	}
	r.sumUp()
	r.Notes = append(r.Notes, "The edits are of one kind, and the floor of the edits watches that kind alone. Vidra watches all kinds.")
	return l.withPeer(r), nil
}

// edit edits an object of the first kind, by turns on each side.
func (o *kindsOptions) edit(ctx context.Context, l *lab, r *report, b batch) (err error) {
	thing := thingKind(0)
	floor, err := startFloor(ctx, l.kubeconfigs[floorNamespace], floorNamespace, "-thing")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.stop()) }()
	want, err := thing.in(floorNamespace)
	if err != nil {
		return err
	}
	applied, err := asObject(b.text(vidraNamespace, 0))
	if err != nil {
		return err
	}
	resource := l.dynamic.Resource(thing.gvr)
	e := edit{name: "edit of an object", patch: `{"spec":{"number":"edited"}}`}
	sides := []*side{
		{name: floorSide, target: stopwatch.Target{Resource: resource.Namespace(floorNamespace), Want: want, Timeout: 10 * time.Second}},
		{name: vidraSide, target: stopwatch.Target{Resource: resource.Namespace(vidraNamespace), Want: applied, Timeout: 10 * time.Second}},
	}
	return alternate(ctx, r, sides, o.edits, e)
}

// alternate makes an edit again and again, by turns on each side.
func alternate(ctx context.Context, r *report, sides []*side, rounds int, e edit) error {
	bar := newProgress(e.name, rounds)
	defer bar.end()
	for number := range rounds + 1 {
		into := r
		if number == 0 {
			into = &report{} // the first one opens connections
		}
		for turn := range sides {
			s := sides[(number+turn)%len(sides)]
			if err := s.time(ctx, into, e, s.target); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		bar.step("")
	}
	return nil
}

// thingName is the name of a CustomResourceDefinition of the benchmark, without its suffix.
func thingName(i int) string { return fmt.Sprintf("bench-%d", i) }

// thingGVR is a kind of the benchmark.
func thingGVR(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: testenv.CRD(thingName(i)).Spec.Group, Version: "v1", Resource: "things"}
}

// thingKind is a kind of the benchmark with the object of it that the floor keeps.
func thingKind(i int) *kind {
	return &kind{gvr: thingGVR(i), manifest: fmt.Sprintf(`
apiVersion: %s
kind: Thing
metadata:
  name: target
  namespace: %%[1]s
  labels: {bench: %%[1]s}
spec:
  number: "0"
`, thingGVR(i).GroupVersion())}
}

// installKinds creates n CustomResourceDefinitions, and returns when objects of all can be listed.
func (l *lab) installKinds(ctx context.Context, n int) error {
	bar := newProgress("kinds installed", n)
	defer bar.end()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			if err := l.client.Create(ctx, testenv.CRD(thingName(i))); err != nil {
				return err
			}
			for {
				_, err := l.dynamic.Resource(thingGVR(i)).List(ctx, metav1.ListOptions{Limit: 1})
				if err == nil && l.established(ctx, i) {
					bar.step("")
					return nil
				}
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
					return err
				}
				if err := sleep(ctx, 100*time.Millisecond); err != nil {
					return fmt.Errorf("%s is not served: %w", thingName(i), err)
				}
			}
		})
	}
	return group.Wait()
}

// established reports whether the API server serves a kind.
func (l *lab) established(ctx context.Context, i int) bool {
	crd := testenv.CRD(thingName(i))
	if err := l.client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
		return false
	}
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
}
