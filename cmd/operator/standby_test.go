package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestQuestionsOfAStandby: a standby asks for a kind of many objects once, and again if the answer may be another one later: no VidraResource may change then.
func TestQuestionsOfAStandby(t *testing.T) {
	unserved := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Thing"}}
	tests := map[string]struct {
		reason string
		err    error
		// found is how often the kind is found within a second.
		found       int
		once, later int
	}{
		"Unserved":   {"The answer is known: at rest, nothing is asked.", unserved, 1, 1, 1},
		"FoundAgain": {"The kind may be served since the first question.", unserved, 40, 1, 2},
		"Unanswered": {"The answer is unknown: after 10, 30, 70 and then each 60 seconds.", errors.New("overloaded"), 40, 1, 6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found, asked := make(chan watched), 0
				q := questions{all: map[watched]question{}, repeat: func(one watched, after time.Duration) {
					time.AfterFunc(after, func() {
						select {
						case found <- one:
						case <-t.Context().Done():
						}
					})
				}}
				find := func(one watched) {
					if q.due(one) {
						asked++
						q.failed(one, tt.err)
					}
				}
				for range tt.found {
					find(watched{})
					time.Sleep(time.Second / 40)
				}
				require.Equal(t, tt.once, asked, tt.reason)
				for end := time.After(200 * time.Second); ; {
					select {
					case one := <-found:
						find(one)
						continue
					case <-end:
					}
					break
				}
				require.Equal(t, tt.later, asked, tt.reason)
			})
		})
	}
}
