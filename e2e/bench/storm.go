package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	// stormCommand is the sub-command that this process starts itself with.
	stormCommand = "storm-of-updates"
	// stormObjects is how many Deployments it writes to, stormResource the VidraResource that
	// they are in, and stormClients how many requests are under way at a time.
	stormObjects  = 20
	stormResource = "bench-storm"
	stormClients  = 16
)

// stormFigures are what a storm did.
type stormFigures struct {
	Updates int64   `json:"updates"`
	Seconds float64 `json:"seconds"`
}

// perSecond is how many updates a second were made.
func (f stormFigures) perSecond() float64 { return float64(f.Updates) / max(f.Seconds, 0.001) }

// stormManifest has the Deployments. They have the label by which the floor watches its own, so that
// both sides get the same events; their controller has nothing to do.
func stormManifest() string {
	text := ""
	for i := range stormObjects {
		text += fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: storm-%d
  namespace: %s
  labels: {bench: %s}
spec:
  replicas: 0
  paused: true
  selector:
    matchLabels: {app: storm-%[1]d}
  template:
    metadata:
      labels: {app: storm-%[1]d}
    spec:
      containers:
      - name: web
        image: registry.invalid/web:1
`, i, vidraNamespace, floorNamespace)
	}
	return text
}

// runStorm updates a condition in the status of the Deployments, one after the other, until its standard
// input ends. Then it prints what it did.
func runStorm(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	fs := childFlags(stormCommand)
	perSecond := fs.Int("rate", 0, "How many updates a second.")
	config, err := childConfig(fs, args)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := untilParentEnds(ctx, in)
	defer cancel()
	if _, err := fmt.Fprintln(out, childReady); err != nil {
		return err
	}
	limit := rate.NewLimiter(rate.Limit(*perSecond), 1)
	resource := client.Resource(deployment.gvr).Namespace(vidraNamespace)
	var sent, made atomic.Int64
	began := time.Now()
	var group errgroup.Group
	for range stormClients {
		group.Go(func() error {
			for limit.Wait(ctx) == nil {
				n := sent.Add(1)
				patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Storm","status":"True","reason":"Storm","message":"%d"}]}}`, n)
				_, err := resource.Patch(ctx, fmt.Sprintf("storm-%d", n%stormObjects), types.StrategicMergePatchType, patch,
					metav1.PatchOptions{FieldManager: "storm"}, "status")
				if err == nil {
					made.Add(1)
				} else if ctx.Err() == nil { // the end of the parent is no failure
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return printJSON(out, stormFigures{Updates: made.Load(), Seconds: time.Since(began).Seconds()})
}

// startStorm rolls the Deployments out and begins to update their status.
func (l *lab) startStorm(ctx context.Context, perSecond int) (*child, error) {
	return startReady(ctx, "the storm", stormCommand, "-kubeconfig", l.env.KubeconfigPath, "-rate", fmt.Sprint(perSecond))
}
