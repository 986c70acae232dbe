package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// changeOptions are the flags of change.
type changeOptions struct{ batchOptions }

func (o *changeOptions) flags(fs *flag.FlagSet) { o.bind(fs, 1_000, 4, 3) }

// measure measures how long it takes from the first VidraResource whose manifest is changed until
// all are ready with the new one. One field of one object changes in each. The floor is a program that
// applies the changed objects, several at a time.
func (o *changeOptions) measure(ctx context.Context, l *lab) (*report, error) {
	b := o.batch(2000) // no round of apply
	if err := l.prepare(ctx, b, o.timeout); err != nil {
		return nil, err
	}
	r := &report{Settings: o.settings() + ", one field of one object changed in each", Environment: l.environment}
	bar := newProgress("change", o.rounds)
	defer bar.end()
	work := contest{line: "all changes applied", rounds: o.rounds, of: o.resources, per: "VidraResource"}
	for number := range o.rounds {
		b.value = fmt.Sprintf("changed-%d", number)
		change := vidraTurn(func(ctx context.Context) error {
			return l.untilReady(ctx, b, int64(number)+2, l.setManifest)
		})
		err := bounded(ctx, o.timeout, func(ctx context.Context) error {
			return l.inTurns(ctx, r, work, number, l.turns(opChange, b, change))
		})
		if err != nil {
			return nil, err
		}
		bar.step("round %d of %d", number+1, o.rounds)
	}
	r.sumUp()
	r.Notes = append(r.Notes, fmt.Sprintf("The floor applies the %d changed objects, %d at a time. Vidra is done when all VidraResources are ready with the new manifest.",
		o.resources, parallel))
	return l.withPeer(r), nil
}

// setManifest changes the manifest of a VidraResource that exists.
func (l *lab) setManifest(ctx context.Context, vr *v1alpha1.VidraResource) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"manifest": vr.Spec.Manifest}})
	if err != nil {
		return err
	}
	return l.client.Patch(ctx, vr, client.RawPatch(types.MergePatchType, patch))
}
