package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// firstConfigFlag is the flag that names the ConfigMap of the first operator.
const firstConfigFlag = "first-operator-config"

// readFirstOperator reads the ConfigMap of the first operator, logs the meaning of each of its keys, and sets
// --default-interval unless a flag or a file does.
func (o *options) readFirstOperator(ctx context.Context, config *rest.Config, log logr.Logger) error {
	if o.firstConfig == "" {
		return nil
	}
	named := o.origins.Name(firstConfigFlag)
	namespace, name, _ := strings.Cut(o.firstConfig, "/")
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the client of ConfigMaps: %w", err)
	}
	configMap, err := client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%s: read the ConfigMap %s of the first operator: %w: grant get on it to the operator, or remove the flag", named, o.firstConfig, err)
	}
	for _, key := range slices.Sorted(maps.Keys(configMap.Data)) {
		interval, meaning := firstOperatorKey(key, configMap.Data[key])
		if interval > 0 {
			if by := o.origins[intervalFlag]; by != "" {
				meaning = "has no effect, because " + by + " takes precedence"
			} else {
				o.defaultInterval = interval
			}
		}
		log.Info("Read a key of the first operator", "configMap", o.firstConfig, "key", key, "value", configMap.Data[key], "meaning", meaning)
	}
	return nil
}

// firstOperatorKey returns the meaning of one key of the first operator: the default of spec.interval that it sets, if any,
// and a sentence for the log.
func firstOperatorKey(key, value string) (interval time.Duration, meaning string) {
	switch key {
	case "requeueResourcesAfter", "requeueRecourcesAfter": // the first operator reads the second
		interval, err := time.ParseDuration(value)
		switch {
		case err != nil:
			return 0, "has no effect, because it is no duration such as 10m: set --" + intervalFlag
		case interval < v1alpha1.MinInterval:
			return v1alpha1.MinInterval, "sets --" + intervalFlag + " to " + v1alpha1.MinInterval.String() + ", which is the minimum"
		}
		return interval, "sets --" + intervalFlag
	case "eventBasedReconcile":
		return 0, "has no effect: Vidra watches the objects of each VidraResource unless its spec.destination.reconcileOnEvents is false"
	case "requeueSyncAfter":
		return 0, "sets the default of spec.interval of InfrahubSyncs"
	case "queryName":
		return 0, "sets the query of InfrahubSyncs"
	case "requeueResourceAfter":
		return 0, "has no effect: vidra-cli writes it, and no operator reads it. Set --" + intervalFlag
	}
	return 0, "has no effect: it is no key of the first operator that Vidra knows; remove it"
}
