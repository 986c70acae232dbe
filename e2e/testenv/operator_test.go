package testenv

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pretendEnv makes this test binary pretend to be an operator; its value says
// of which sort.
const pretendEnv = "VIDRA_TESTENV_PRETEND"

// firstStartEnv names the folder that the first start of a pretended operator makes.
const firstStartEnv = "VIDRA_TESTENV_FIRST_START"

// pretendOperator takes the flags that StartOperator passes, serves its health
// address and ends when SIGTERM arrives: with code 0 when it is "good", not at
// all when it is "stubborn", and with code 66 when it is "racy". An operator
// that is "broken" ends at once, one that is "never-ready" answers 503, and one that is "late" finds its health address taken at its first start.
func pretendOperator() {
	sort := os.Getenv(pretendEnv)
	fmt.Println("pretending to be", sort, os.Args[1:])
	if sort == "broken" {
		os.Exit(3)
	}
	fs := flag.NewFlagSet("operator", flag.ExitOnError)
	for _, name := range []string{"kubeconfig", "metrics-bind-address", "metrics-secure", "backstop-interval", "leader-elect", "workers"} {
		fs.String(name, "", "")
	}
	health := fs.String("health-probe-bind-address", "", "")
	_ = fs.Parse(os.Args[1:])

	if first := os.Getenv(firstStartEnv); sort == "late" && os.Mkdir(first, 0o700) == nil {
		for range 2 { // the second one fails
			if _, err := net.Listen("tcp", *health); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		_ = http.ListenAndServe(*health, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if sort == "never-ready" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
	}()
	<-end
	switch sort {
	case "stubborn":
		select {}
	case "racy":
		os.Exit(66)
	}
	os.Exit(0)
}

func pretended(sort string) OperatorOptions {
	return OperatorOptions{
		Binary:         os.Args[0],
		Namespace:      "default",
		ServiceAccount: "default",
		Args:           []string{"--workers=4"},
		Env:            []string{pretendEnv + "=" + sort},
	}
}

func TestOperatorStartsAndStops(t *testing.T) {
	tests := map[string]struct {
		reason string
		sort   string
		end    func(*Operator) error
		want   string
	}{
		"good": {
			reason: "an operator that ends cleanly on SIGTERM is no error",
			sort:   "good",
			end:    func(op *Operator) error { return op.Stop(10 * time.Second) },
		},
		"racy": {
			reason: "the race detector ends a process with code 66, which a test must see",
			sort:   "racy",
			end:    func(op *Operator) error { return op.Stop(10 * time.Second) },
			want:   "did not end cleanly: exit status 66",
		},
		"stubborn": {
			reason: "an operator that ignores SIGTERM is killed, and that is an error",
			sort:   "stubborn",
			end:    func(op *Operator) error { return op.Stop(200 * time.Millisecond) },
			want:   "did not end within 200ms of SIGTERM",
		},
		"killed": {
			reason: "Kill is a crash on purpose",
			sort:   "stubborn",
			end:    (*Operator).Kill,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			op, err := env.StartOperator(t.Context(), pretended(tt.sort))
			require.NoError(t, err, tt.reason)
			require.NoError(t, op.Err())
			require.NoError(t, syscall.Kill(op.PID, 0), "it runs")
			log, err := os.ReadFile(op.Log)
			require.NoError(t, err)
			require.Contains(t, string(log), "--leader-elect=false --workers=4")

			err = tt.end(op)
			if tt.want == "" {
				require.NoError(t, err, tt.reason)
			} else {
				require.ErrorContains(t, err, tt.want, tt.reason)
				require.ErrorContains(t, err, "pretending to be", "the error holds the log")
			}
			<-op.Done()
			require.ErrorIs(t, syscall.Kill(op.PID, 0), syscall.ESRCH, "it is gone")
			require.ErrorContains(t, op.Stop(time.Second), "had ended before")
		})
	}
}

func TestOperatorThatDoesNotStart(t *testing.T) {
	tests := map[string]struct {
		reason string
		sort   string
		want   string
	}{
		"ends": {
			reason: "one that ends at once is not waited for",
			sort:   "broken",
			want:   "ended before it was ready",
		},
		"hangs": {
			reason: "the error holds what /readyz said",
			sort:   "never-ready",
			want:   "503",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := pretended(tt.sort)
			o.ReadyTimeout = 5 * time.Second
			var out strings.Builder
			o.Out = &out
			start := time.Now()
			_, err := env.StartOperator(t.Context(), o)
			require.ErrorContains(t, err, tt.want, tt.reason)
			require.ErrorContains(t, err, "pretending to be "+tt.sort, "the error holds the log")
			require.Contains(t, out.String(), "pretending to be "+tt.sort, "the output is copied")
			require.Less(t, time.Since(start), 15*time.Second)
		})
	}
}

// TestOperatorWithATakenPort: another process takes the port of an operator before its start, which is repeated with other ports.
func TestOperatorWithATakenPort(t *testing.T) {
	o := pretended("late")
	first := filepath.Join(t.TempDir(), "first")
	o.Env = append(o.Env, firstStartEnv+"="+first)
	op, err := env.StartOperator(t.Context(), o)
	require.NoError(t, err)
	require.DirExists(t, first)
	require.NoError(t, op.Stop(10*time.Second))
}

func TestOperatorWithoutServiceAccount(t *testing.T) {
	o := pretended("good")
	o.ServiceAccount = "none"
	_, err := env.StartOperator(context.Background(), o)
	require.ErrorContains(t, err, "asking for a token of ServiceAccount default/none")
}
