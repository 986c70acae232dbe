package vidratest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vidra-operator/vidra/pkg/vidratest"
)

// An e2e suite edits a ConfigMap that the VidraResource "shop" manages, and requires that the edit stands for at
// most 250 ms.
func Example() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := vidratest.New(config)
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)

	settings := vidratest.Object{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "settings"}
	heal, err := cluster.Healed(context.Background(), settings, 250*time.Millisecond, func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("shop").Patch(ctx, "settings", types.MergePatchType,
			[]byte(`{"data":{"colour":"red"}}`), metav1.PatchOptions{FieldManager: "e2e"})
		return err
	})
	if err != nil {
		log.Fatal(err) // ConfigMap shop/settings is not healed after 250ms: data.colour is "red" and should be "blue", ...
	}
	fmt.Printf("%s stood for %s, set by %s\n", heal.Changes[0].Path, heal.Stood, heal.Changes[0].Manager)
}
