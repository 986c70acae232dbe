package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"unique"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
)

const (
	// memoryLimitVariable is the environment variable that holds the memory limit of the
	// container in bytes: config/manager sets it from resources.limits.memory.
	memoryLimitVariable = "MEMORY_LIMIT"
	// memoryShare is the part of it, in percent, that the garbage collector leaves to the heap. The rest is for memory
	// that the Go runtime leaves out of its count.
	memoryShare = 90
	// gcPercent is the growth of the heap, in percent, until the garbage collector runs again. Most of the heap of the
	// operator is its knowledge of the objects: with the 100 of the Go runtime, garbage of a rollout takes as much memory once
	// more.
	gcPercent = 50
)

// setGCPercent sets gcPercent. The environment variable GOGC, which the Go runtime reads
// itself, goes first.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// limitMemory has the garbage collector run often enough to stay within the memory limit
// of the container. GOMEMLIMIT, which the Go runtime reads itself, goes first. The
// number of processors needs no such setting: the runtime reads the CPU limit of the
// container since Go 1.25.
func limitMemory() error {
	text := os.Getenv(memoryLimitVariable)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("the environment variable %s is %q: set it to a number of bytes, or remove it", memoryLimitVariable, text)
	}
	debug.SetMemoryLimit(limit / 100 * memoryShare)
	return nil
}

// compact returns the transform of the cache of VidraResources. It removes the fields that no reconcile reads: the
// managedFields, the annotation of kubectl apply, which has the manifest a second time, and a first inventory that has
// become irrelevant. An inventory that Vidra has written is kept once, and so are texts that many entries of another one
// have.
func compact(inventories *status.Inventories) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		vr, is := obj.(*v1alpha1.VidraResource)
		if !is {
			return obj, nil // a tombstone
		}
		if text, set := vr.Annotations[corev1.LastAppliedConfigAnnotation]; set {
			inventories.Drop(vr, len(strconv.Quote(text)))
		} else {
			inventories.Drop(vr, 0)
		}
		vr.ManagedFields = nil
		delete(vr.Annotations, corev1.LastAppliedConfigAnnotation)
		if !owners.AwaitsFirstInventory(&vr.Status) {
			delete(vr.Annotations, v1alpha1.FirstInventoryAnnotation)
		}
		if !inventories.Share(vr) {
			compactInventory(vr)
		}
		return vr, nil
	}
}

// compactInventory has the inventory of a VidraResource take less memory.
func compactInventory(vr *v1alpha1.VidraResource) {
	vr.Status.ManagedResources = slices.Clone(vr.Status.ManagedResources) // the decoder left room for more
	for i := range vr.Status.ManagedResources {
		e := &vr.Status.ManagedResources[i]
		e.APIVersion, e.Kind, e.Namespace = shared(e.APIVersion), shared(e.Kind), shared(e.Namespace)
		e.State, e.Health = shared(e.State), shared(e.Health)
	}
}

// shared returns a text that shares its memory with all equal ones.
func shared[T ~string](text T) T { return unique.Make(text).Value() }
