package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDescribePods(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, restarts int32) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "vidra-system", Name: name},
			Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{RestartCount: restarts}}},
		}
	}
	require.Empty(t, describePods([]corev1.Pod{pod("a", corev1.PodPending, 0)}), "a Pod that waits for a node is no operator")
	require.Equal(t, "Pod vidra-system/a (0 restarts), Pod vidra-system/b (2 restarts)",
		describePods([]corev1.Pod{pod("b", corev1.PodRunning, 2), pod("a", corev1.PodRunning, 0)}), "in any order")
}

func TestSame(t *testing.T) {
	tests := map[string]struct {
		reason string
		now    string
		err    error
		want   string
	}{
		"same":      {reason: "a tour without a restart goes on", now: "process 1"},
		"restarted": {reason: "a restart is what the tour says did not happen", now: "process 2", want: "was process 1 and is process 2"},
		"unknown":   {reason: "an error is no answer", err: errors.New("forbidden"), want: "forbidden"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			given := &tour{operator: func(context.Context) (string, error) { return tt.now, tt.err }}
			now, err := given.same(t.Context(), "process 1")
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want, tt.reason)
				return
			}
			require.NoError(t, err, tt.reason)
			require.Equal(t, tt.now, now)
		})
	}
}
