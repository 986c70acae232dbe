package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	// ShardLabelPrefix is the prefix of the label by which the operators of a shard watch their objects. A
	// slash and the name of the shard follow; the value is empty.
	ShardLabelPrefix = "shard.vidraresource.infrahub.operators.com"
	// MaxShards is how many shards may reconcile one VidraResource at a time.
	MaxShards = 8

	// shardHash is how many hexadecimal digits the name of a shard ends with, and maxShardValue how long the
	// value of a label before it is.
	shardHash, maxShardValue = 8, 40
)

// Shard identifies the VidraResources that an operator with --watch-label-selector reconciles: the label
// selector in its canonical form, so that equal selectors are equal shards. It is empty for an operator
// without the flag, which reconciles all VidraResources of its installation.
type Shard string

// ParseShard returns the shard of a label selector.
func ParseShard(selector string) (Shard, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return "", fmt.Errorf("%q is no label selector: %w", selector, err)
	}
	requirements, _ := parsed.Requirements()
	var all []string
	for _, r := range requirements {
		values, operator := r.Values().List(), r.Operator()
		switch {
		case len(values) == 1 && (operator == selection.In || operator == selection.DoubleEquals):
			operator = selection.Equals
		case len(values) == 1 && operator == selection.NotIn:
			operator = selection.NotEquals
		}
		canonical, err := labels.NewRequirement(r.Key(), operator, values)
		if err != nil {
			return "", fmt.Errorf("%q is no label selector: %w", selector, err)
		}
		all = append(all, canonical.String())
	}
	slices.Sort(all)
	return Shard(strings.Join(slices.Compact(all), ",")), nil
}

// Selector returns the label selector; one that matches nothing if the shard is none that ParseShard returned.
func (s Shard) Selector() labels.Selector {
	selector, err := labels.Parse(string(s))
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// Has reports whether the selector matches a VidraResource.
func (s Shard) Has(vr *VidraResource) bool { return s.Selector().Matches(labels.Set(vr.Labels)) }

// Name returns a DNS label for the shard, such as "shard1-5d41402a" for "team=shard1": the value, if the selector
// is one, and a hash of the selector, so that two shards do not have one name. It is empty for no shard.
func (s Shard) Name() string {
	if s == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(s))
	name := "shard"
	if requirements, _ := s.Selector().Requirements(); len(requirements) == 1 && requirements[0].Operator() == selection.Equals {
		value := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(requirements[0].Values().List()[0]))
		if value = strings.Trim(value[:min(len(value), maxShardValue)], "-"); value != "" {
			name = value
		}
	}
	return name + "-" + hex.EncodeToString(sum[:shardHash/2])
}

// ShardLabelKey is the label that a VidraResource of a shard sets on its objects, so that the watches of
// the shard select them: "shard.vidraresource.infrahub.operators.com/NAME", with the installation and a
// dot before it; empty for no shard. Each shard has a key of its own: an object of several
// VidraResources has the labels of all their shards.
func (i Installation) ShardLabelKey(s Shard) string {
	if s == "" {
		return ""
	}
	return i.within(ShardLabelPrefix) + "/" + s.Name()
}

// IsShardLabel reports whether a label belongs to a shard of any installation.
func IsShardLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == ShardLabelPrefix || strings.HasSuffix(domain, "."+ShardLabelPrefix)
}

// IsShardLabel reports whether a label belongs to a shard of the installation.
func (i Installation) IsShardLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == i.within(ShardLabelPrefix)
}

// ShardsOf returns the shards that reconcile a VidraResource, in order, as an operator of the shard own finds them:
// own, and those in the status whose selectors still match. They are several where selectors overlap. Each
// operator finds the same ones, so that all of them apply the same objects. No shard is not listed.
func ShardsOf(vr *VidraResource, own Shard) []string {
	var all []string
	if own != "" {
		all = append(all, string(own))
	}
	for _, listed := range vr.Status.Shards {
		if listed == string(own) || len(all) == MaxShards {
			continue
		}
		if s, err := ParseShard(listed); err == nil && s != "" && string(s) == listed && s.Has(vr) {
			all = append(all, listed)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ShardLabelKeys returns the labels that the objects of a VidraResource of some shards have.
func (i Installation) ShardLabelKeys(shards []string) []string {
	keys := make([]string, 0, len(shards))
	for _, s := range shards {
		keys = append(keys, i.ShardLabelKey(Shard(s)))
	}
	return keys
}
