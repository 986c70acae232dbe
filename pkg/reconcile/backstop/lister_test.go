package backstop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// asked is a page that was asked for.
type asked struct {
	key   watchregistry.Key
	limit int64
	token string
	at    time.Time
}

// pages has watches of some objects, whose continue tokens are numbers.
type pages struct {
	watches []watchregistry.Watch
	// answer is what a page is answered with instead, unless it is nil.
	answer func(q asked) error
	// value is the text in each object.
	value string
	asked []asked
}

func (p *pages) Watches() []watchregistry.Watch { return p.watches }

func (p *pages) ListAgain(watchregistry.Key) {}

func (p *pages) Page(ctx context.Context, key watchregistry.Key, limit int64, token string) (*unstructured.UnstructuredList, error) {
	q := asked{key: key, limit: limit, token: token, at: time.Now()}
	p.asked = append(p.asked, q)
	if p.answer != nil {
		if err := p.answer(q); err != nil {
			return nil, err
		}
	}
	if deadline, bounded := ctx.Deadline(); !bounded || time.Until(deadline) > pageTimeout {
		return nil, errors.New("a page may take too long")
	}
	from, _ := strconv.ParseInt(token, 10, 64)
	page := &unstructured.UnstructuredList{}
	page.SetResourceVersion("1")
	for _, w := range p.watches {
		for i := from; w.Key == key && i < min(from+limit, w.Objects); i++ {
			u := unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"text": p.value}}}
			u.SetName(strconv.FormatInt(i, 10))
			page.Items = append(page.Items, u)
		}
		if w.Key == key && from+limit < w.Objects {
			page.SetContinue(strconv.FormatInt(from+limit, 10))
		}
	}
	return page, nil
}

// watchOf is a watch of some objects.
func watchOf(objects int64, cluster, namespace string) watchregistry.Watch {
	return watchregistry.Watch{
		Key: watchregistry.Key{Cluster: cluster, GVR: configMaps, Namespace: namespace}, Objects: objects,
		Status: watchregistry.Status{State: watchregistry.Synced},
	}
}

// listFor lists for some hours, and returns the metrics.
func listFor(t *testing.T, p *pages, hours time.Duration) *metrics.Metrics {
	t.Helper()
	counts := metrics.New()
	l := &Lister{Watches: p, Trigger: trigger.NewFactory(trigger.NewIndex()), Metrics: counts, Interval: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), hours*time.Hour)
	defer cancel()
	require.NoError(t, l.Start(ctx))
	return counts
}

// TestListerPaces counts the pages of 100,000 objects.
func TestListerPaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pages{watches: []watchregistry.Watch{
			watchOf(100_000, "", "a"), watchOf(900, "", "b"), watchOf(1, "", "c"), watchOf(5, "", "starting"),
		}}
		p.watches[3].State = watchregistry.Starting
		listFor(t, p, 4)
		last, by := map[string]time.Time{}, map[string]int{}
		for _, q := range p.asked {
			if before := last[q.key.Namespace]; !before.IsZero() {
				require.GreaterOrEqual(t, q.at.Sub(before), maxGap, "at most one request a minute and watch")
			}
			if q.token != "" {
				require.LessOrEqual(t, q.at.Sub(last[q.key.Namespace]), maxGap, "a continue token lives for minutes")
			}
			last[q.key.Namespace] = q.at
			by[q.key.Namespace]++
		}
		t.Logf("pages in 4 hours: %v", by)
		require.InDelta(t, 3.5*50, by["a"], 30)
		require.InDelta(t, 4, by["b"], 1)
		require.InDelta(t, 4, by["c"], 1)
		require.Zero(t, by["starting"])
	})
}

// TestListerPageSize has objects of a mebibyte, of which a page has few.
func TestListerPageSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pages{watches: []watchregistry.Watch{watchOf(300, "", "")}, value: string(make([]byte, 1<<20))}
		listFor(t, p, 3)
		require.EqualValues(t, firstPage, p.asked[0].limit, "the size of the objects is not known yet")
		for _, q := range p.asked[1:] {
			require.LessOrEqual(t, q.limit, int64(pageBytes>>20))
			require.GreaterOrEqual(t, q.limit, int64(minPage))
		}
	})
}

// TestListerShrinksPages has objects that are larger than those before, of which the API server has too many bytes for a page.
func TestListerShrinksPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pages{watches: []watchregistry.Watch{watchOf(1000, "", "")}}
		p.answer = func(q asked) error {
			if q.token != "" && q.limit > 20 {
				return fmt.Errorf("read the answer: %w", cluster.ErrPageTooLarge)
			}
			return nil
		}
		counts := listFor(t, p, 3)
		require.Zero(t, testutil.CollectAndCount(counts, "vidra_backstop_failures_total"), "that is no failure")
		var limits []int64
		for _, q := range p.asked[:7] {
			limits = append(limits, q.limit)
		}
		require.Equal(t, []int64{100, 2000, 500, 125, 31, 7, 2000}, limits)
		require.Equal(t, "100", p.asked[5].token, "the same page")
		require.Equal(t, "107", p.asked[6].token)
	})
}

// TestListerContinues has continue tokens that expire, which happens after five minutes.
func TestListerContinues(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		offers string
		want   []string
	}{
		"Inconsistent": {"The API server offers a token for the newest state of the rest.", "100", []string{"", "100", "100"}},
		"Restart":      {"It offers none, so the LIST begins again.", "", []string{"", "100", "", "2000"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				expired := false
				p := &pages{watches: []watchregistry.Watch{watchOf(2050, "", "")}}
				p.answer = func(q asked) error {
					if q.token == "" || expired {
						return nil
					}
					expired = true
					err := apierrors.NewResourceExpired("The provided continue parameter is too old")
					err.ErrStatus.ListMeta = metav1.ListMeta{Continue: tc.offers}
					return err
				}
				counts := listFor(t, p, 3)
				var tokens []string
				for _, q := range p.asked[:len(tc.want)] {
					tokens = append(tokens, q.token)
				}
				require.Equal(t, tc.want, tokens, tc.reason)
				require.Zero(t, testutil.CollectAndCount(counts, "vidra_backstop_failures_total"), "that is routine")
			})
		})
	}
}

// TestListerFails has a cluster that does not answer, beside one that does.
func TestListerFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pages{}
		for i := range 20 {
			p.watches = append(p.watches, watchOf(1, "https://silent.example.com", strconv.Itoa(i)), watchOf(1, "", strconv.Itoa(i)))
		}
		p.answer = func(q asked) error {
			if q.key.Cluster != "" {
				time.Sleep(pageTimeout)
				return context.DeadlineExceeded
			}
			return nil
		}
		counts := listFor(t, p, 10)
		here := 0
		for _, q := range p.asked {
			if q.key.Cluster == "" {
				here++
			}
		}
		require.Greater(t, here, 9*20, "it does not delay the LISTs of others much")
		require.Less(t, len(p.asked)-here, 10*15, "it is asked now and then")
		require.Equal(t, 1, testutil.CollectAndCount(counts, "vidra_backstop_failures_total"))

		p.asked, p.answer = nil, func(asked) error { return apierrors.NewNotFound(configMaps.GroupResource(), "") }
		counts = listFor(t, p, 3)
		require.NotEmpty(t, p.asked)
		require.Zero(t, testutil.CollectAndCount(counts, "vidra_backstop_failures_total"), "its watch reports a kind that is gone")
	})
}

// TestListerStarves has many kinds whose LISTs fail, as those of a broken conversion webhook do, beside others of the same
// cluster.
func TestListerStarves(t *testing.T) {
	t.Parallel()
	for name, took := range map[string]time.Duration{"Refused": 0, "Silent": pageTimeout} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &pages{}
				for i := range 30 {
					p.watches = append(p.watches, watchOf(1, "", "right"+strconv.Itoa(i)), watchOf(1, "", "wrong"+strconv.Itoa(i)))
				}
				p.answer = func(q asked) error {
					if strings.HasPrefix(q.key.Namespace, "wrong") {
						time.Sleep(took)
						return apierrors.NewInternalError(errors.New("conversion webhook failed"))
					}
					return nil
				}
				listFor(t, p, 10)
				by := map[string]int{}
				for _, q := range p.asked {
					by[q.key.Namespace]++
				}
				for i := range 30 {
					require.GreaterOrEqual(t, by["right"+strconv.Itoa(i)], 6, "%v", by)
				}
			})
		})
	}
}

// TestListerOff has no interval.
func TestListerOff(t *testing.T) {
	t.Parallel()
	p := &pages{watches: []watchregistry.Watch{watchOf(1, "", "")}}
	require.NoError(t, (&Lister{Watches: p}).Start(t.Context()))
	require.Empty(t, p.asked)
}
