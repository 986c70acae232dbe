package archive

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// slowClient reads nothing of an answer before release is closed.
type slowClient struct {
	*httptest.ResponseRecorder

	reads, release chan struct{}
}

// Write implements http.ResponseWriter.
func (c slowClient) Write(content []byte) (int, error) {
	c.reads <- struct{}{}
	<-c.release
	return len(content), nil
}

// TestSlowClients: clients that do not read their answers leave places to others, and a client has as many again once its answers are read.
func TestSlowClients(t *testing.T) {
	publisher := metav1.OwnerReference{UID: "00000000-0000-0000-0000-000000000000"}
	content, err := Pack(map[string]string{"a.yaml": "a"})
	require.NoError(t, err)
	s := NewServer(&Store{Secrets: fake.NewClientset().CoreV1(), Namespace: "vidra-system"}, logr.Discard())
	require.NoError(t, s.store.Save(t.Context(), publisher, content))
	request := func(client int, w http.ResponseWriter) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+PathOf(publisher.UID, content.Digest), http.NoBody)
		r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1000", client)
		s.ServeHTTP(w, r)
	}
	answer := func(client int) int {
		w := httptest.NewRecorder()
		request(client, w)
		return w.Code
	}
	slow := slowClient{ResponseRecorder: httptest.NewRecorder(), reads: make(chan struct{}), release: make(chan struct{})}
	ended := make(chan struct{})
	begun := 0
	for client := range 3 {
		for range writing {
			go func() {
				defer func() { ended <- struct{}{} }()
				request(client, slow)
			}()
			select {
			case <-slow.reads:
				begun++
			case <-ended:
			}
		}
	}
	require.Equal(t, http.StatusServiceUnavailable, answer(0), "a client takes as many places as it leaves")
	require.Equal(t, http.StatusOK, answer(9), "another client has one")
	close(slow.release)
	for range begun {
		<-ended
	}
	require.Equal(t, http.StatusOK, answer(0))
}
