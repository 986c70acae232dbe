package e2e

import "strings"

// editable are the manifests of the kinds that TestF21Edits edits: each row of its
// table has an object of its own, with a name of its own. What they refer to does
// not exist, and they apply to no other object: other tests share the cluster.
var editable = map[string]string{
	"ConfigMap": `
apiVersion: v1
kind: ConfigMap
metadata: {name: <name>, labels: {app: web}}
data: {greeting: hello, farewell: goodbye}
binaryData: {blob: AAECAw==}
`,
	"ConfigMap of 900 KiB": `
apiVersion: v1
kind: ConfigMap
metadata: {name: <name>}
data: {blob: <blob>}
`,
	"Secret": `
apiVersion: v1
kind: Secret
metadata: {name: <name>, labels: {app: web}}
data: {password: aHVudGVyMg==, user: YWRtaW4=}
`,
	"Service": `
apiVersion: v1
kind: Service
metadata: {name: <name>}
spec:
  selector: {app: <name>}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: admin, port: 81, targetPort: 8081}]
`,
	"ServiceAccount": `
apiVersion: v1
kind: ServiceAccount
metadata: {name: <name>}
automountServiceAccountToken: false
imagePullSecrets: [{name: registry}]
`,
	"Namespace": `
apiVersion: v1
kind: Namespace
metadata: {name: <name>, labels: {team: web}}
`,
	"PersistentVolumeClaim": `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: <name>, labels: {app: web}}
spec:
  storageClassName: none
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`,
	"PersistentVolume": `
apiVersion: v1
kind: PersistentVolume
metadata: {name: <name>}
spec:
  storageClassName: none
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  mountOptions: [noatime]
  csi: {driver: none.example.com, volumeHandle: <name>}
`,
	"ResourceQuota": `
apiVersion: v1
kind: ResourceQuota
metadata: {name: <name>}
spec: {hard: {pods: "10", limits.memory: 2Gi}}
`,
	"LimitRange": `
apiVersion: v1
kind: LimitRange
metadata: {name: <name>}
spec: {limits: [{type: Container, max: {cpu: "0.5"}}]}
`,
	"PodTemplate": `
apiVersion: v1
kind: PodTemplate
metadata: {name: <name>}
template:
  metadata: {labels: {app: web}}
  spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`,
	"Pod": `
apiVersion: v1
kind: Pod
metadata: {name: <name>, labels: {app: web}}
spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`,
	"Deployment": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: <name>}
spec:
  replicas: 0
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}}
    spec:
      nodeSelector: {disk: ssd}
      tolerations: [{key: dedicated, operator: Exists}]
      securityContext: {}
      containers:
      - name: web
        image: registry.invalid/web:1
        args: [--verbose]
        env: [{name: LOG, value: info}]
        ports: [{name: http, containerPort: 8080}]
        resources: {requests: {cpu: "1", memory: 1Gi}}
      - {name: helper, image: "registry.invalid/helper:1", resources: {}}
`,
	"StatefulSet": `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: <name>}
spec:
  replicas: 0
  serviceName: none
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}}
    spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`,
	"DaemonSet": `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: <name>}
spec:
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}}
    spec:
      nodeSelector: {none: such}
      containers: [{name: web, image: "registry.invalid/web:1", ports: [{containerPort: 80}]}]
`,
	"ReplicaSet without replicas": `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: <name>}
spec:
  minReadySeconds: 3
  selector: {matchLabels: {app: <name>}}
  template:
    metadata: {labels: {app: <name>}}
    spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`,
	"Job": `
apiVersion: batch/v1
kind: Job
metadata: {name: <name>}
spec:
  suspend: true
  parallelism: 1
  template:
    spec: {restartPolicy: Never, containers: [{name: job, image: "registry.invalid/job:1"}]}
`,
	"CronJob": `
apiVersion: batch/v1
kind: CronJob
metadata: {name: <name>}
spec:
  schedule: 0 0 1 1 *
  suspend: true
  jobTemplate:
    metadata: {labels: {app: web}}
    spec:
      template:
        spec:
          restartPolicy: Never
          volumes: [{name: scratch, emptyDir: {}}]
          containers:
          - {name: job, image: "registry.invalid/job:1", env: [{name: LOG, value: info}]}
          - {name: helper, image: "registry.invalid/helper:1"}
`,
	"PodDisruptionBudget": `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: <name>}
spec: {minAvailable: 1, selector: {matchLabels: {app: <name>}}}
`,
	"HorizontalPodAutoscaler": `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: <name>}
spec:
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
  behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}
`,
	"Lease": `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: <name>}
spec: {leaseDurationSeconds: 15}
`,
	"EndpointSlice": `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: <name>}
addressType: IPv4
endpoints: [{addresses: [192.0.2.1]}]
ports: [{name: http, port: 80, protocol: TCP}]
`,
	"NetworkPolicy": `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: <name>}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 80, protocol: TCP}]}]
`,
	"NetworkPolicy with nothing": `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: <name>}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress: []
`,
	"Ingress": `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: <name>}
spec:
  ingressClassName: none
  defaultBackend: {service: {name: web, port: {number: 80}}}
  tls: [{hosts: [web.example.com]}]
`,
	"Role": `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: <name>}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
`,
	"RoleBinding": `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: <name>}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: none.example.com, apiGroup: rbac.authorization.k8s.io}]
`,
}

// asStored makes of such a manifest what the API server makes of it, where it
// writes something in another way, or not at all.
var asStored = strings.NewReplacer(`"0.5"`, "500m", "ingress: []\n", "")

// editedObject makes the manifest of an object of a kind.
func editedObject(kind, name, group string) string {
	manifest := editable[kind]
	if manifest == "" {
		manifest = editableOfCluster[kind]
	}
	if manifest == "" {
		manifest = editableStructure[kind]
	}
	return strings.NewReplacer("<name>", name, "<group>", group,
		"<blob>", strings.Repeat("0123456789abcdef", 900<<10/16)).Replace(manifest)
}
