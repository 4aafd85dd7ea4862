"""Templates of `kubernetes.yaml` and `kserve.yaml`, for `string.Template`."""

KUBERNETES = """\
# $name on Kubernetes: push the image of deploy/docker/Dockerfile to your registry, put its name in place of
# "$image" below, and then:  kubectl apply -f deploy/kubernetes.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: $dns_name
  labels: &labels
    app.kubernetes.io/name: $dns_name
spec:
  # The number of replicas is that of the HorizontalPodAutoscaler below.
  selector:
    matchLabels: *labels
  template:
    metadata:
      labels: *labels
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8501"
        prometheus.io/path: /metrics
    spec:
      automountServiceAccountToken: false
      # 5 s until no more requests arrive, 30 s (--drain) to finish those that run, and time to end the processes.
      terminationGracePeriodSeconds: 45
      securityContext:
        runAsNonRoot: true
        runAsUser: 1000
        runAsGroup: 1000
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: server
          image: $image
          # One batch with one thread per requested core. The server would count all cores of the node.
          command: [bert-keras, serve]
          args:
            - --host=0.0.0.0
            - --model=$name=/models/$name
            - --threads=1
            - --instances=$$(CORES)
            - --drain=30
          env:
            - name: CORES
              valueFrom:
                resourceFieldRef:
                  resource: requests.cpu
            # To require an API key, create the secret:  kubectl create secret generic $dns_name --from-literal=key=...
            - name: BERT_KERAS_API_KEY
              valueFrom:
                secretKeyRef:
                  name: $dns_name
                  key: key
                  optional: true
          ports:
            - name: http
              containerPort: 8501
            - name: grpc
              containerPort: 8500
          resources:
            requests:
              cpu: "2"
              memory: $memory
            limits:
              memory: $memory  # for two versions of the model while the server changes to a new one
          startupProbe:  # up to 2 minutes to load the model
            httpGet: {path: /health/ready, port: http}
            periodSeconds: 2
            failureThreshold: 60
          readinessProbe:
            httpGet: {path: /health/ready, port: http}
            periodSeconds: 5
            timeoutSeconds: 3
          livenessProbe:
            httpGet: {path: /health/live, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
          lifecycle:
            preStop:
              exec:
                command: [sleep, "5"]
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: tmp
          emptyDir: {}
---
apiVersion: v1
kind: Service
metadata:
  name: $dns_name
  labels:
    app.kubernetes.io/name: $dns_name
spec:
  selector:
    app.kubernetes.io/name: $dns_name
  ports:
    - name: http
      port: 8501
      targetPort: http
    # A gRPC client keeps one connection, so one pod gets all of its requests, unless it balances the load itself
    # (a headless service and "round_robin") or a service mesh does.
    - name: grpc
      port: 8500
      targetPort: grpc
      appProtocol: grpc
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: $dns_name
  labels:
    app.kubernetes.io/name: $dns_name
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: $dns_name
  minReplicas: 2
  maxReplicas: 10
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: 70  # of the requested cores
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: $dns_name
  labels:
    app.kubernetes.io/name: $dns_name
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: $dns_name
"""

KSERVE = """\
# $name on KServe. Push the server's image (deploy/docker/Dockerfile, --target server) to your registry and put its name
# in place of "$server_image" below; upload the content of onnx/ and fill in storageUri. Then:
#     kubectl apply -f deploy/kserve.yaml
#
# The runtime serves all models that bert-keras exported: a second one needs its InferenceService only. KServe's own
# runtime for TensorFlow is TensorFlow Serving 2.6.2, which cannot load the SavedModels of this package.
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata:
  name: bert-keras
spec:
  annotations:
    prometheus.kserve.io/port: "8080"
    prometheus.kserve.io/path: /metrics
  supportedModelFormats:
    - name: bert-keras
      version: "1"
      autoSelect: true
  protocolVersions: [v2, grpc-v2]
  multiModel: false
  containers:
    - name: kserve-container
      image: $server_image
      command: [bert-keras, serve]
      args:
        - --host=0.0.0.0
        - --port=8080
        - --grpc-port=9000
        - --model={{.Name}}=/mnt/models  # where KServe mounts the files
        - --threads=1
        - --instances=$$(CORES)
        - --drain=25  # Kubernetes ends the container after 30 s
      env:
        - name: CORES
          valueFrom:
            resourceFieldRef:
              resource: requests.cpu
      readinessProbe:
        httpGet: {path: /health/ready, port: 8080}
        periodSeconds: 5
        timeoutSeconds: 3
      livenessProbe:
        httpGet: {path: /health/live, port: 8080}
        initialDelaySeconds: 60  # it answers after the model is loaded
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        runAsUser: 1000
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: tmp
          mountPath: /tmp
  volumes:
    - name: tmp
      emptyDir: {}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: $dns_name
spec:
  predictor:
    minReplicas: 1
    model:
      runtime: bert-keras
      modelFormat:
        name: bert-keras
      protocolVersion: v2
      storageUri: s3://BUCKET/$dns_name  # FILL IN: the content of onnx/, at s3://, gs://, https:// or pvc://
      resources:
        requests:
          cpu: "2"
          memory: $memory
        limits:
          memory: $memory
      # For gRPC set protocolVersion to grpc-v2 and add:  ports: [{name: h2c, containerPort: 9000, protocol: TCP}]
"""
